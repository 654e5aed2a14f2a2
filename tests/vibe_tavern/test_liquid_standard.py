"""Standard Liquid: filters, conditions and loops give what Liquid gives, for odd input too."""

from __future__ import annotations

import pytest

from tavernkit.stores._variables import LOCAL, InMemoryVariablesStore
from tavernkit.vibe_tavern._liquid_macros.render import render_liquid
from tavernkit.vibe_tavern.errors import LiquidError

GIVEN: dict[str, object] = {
    "a": "x",
    "n": 5,
    "list": [3, 1, 2],
    "mixed": [1, "a", None],
    "map": {"k": "v"},
    "odd": [1, 1.0, True, None, "1", {"k": 1}],
    "rows": [{"n": "z", "v": 2}, {"n": "y", "v": 1}, {"n": "x", "v": None}],
    "nothing": None,
    "no": False,
    "yes": True,
    "text": "Hello World",
    "html": "<b>&amp;\"'",
}


def rendered(template: str) -> str:
    return render_liquid(template, assigns=GIVEN)


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{{ text | truncate: 8 }}", "Hello..."),
        ("{{ text | truncate: 11 }}", "Hello World"),
        ("{{ text | truncate: 2 }}", "..."),
        ("{{ text | truncate: 5, '' }}", "Hello"),
        ("{{ nothing | truncate: 2 }}", ""),
        ("{{ text | truncate: 'x' }}", "Liquid error: invalid integer"),
        ("{{ 'a b' | truncatewords: 2 }}", "a b"),
        ("{{ 'a  b\nc' | truncatewords: 2 }}", "a b..."),
        ("{{ 'a b c' | truncatewords: 0, '!' }}", "a!"),
        ("{{ html | escape }}", "&lt;b&gt;&amp;amp;&quot;&#39;"),
        ("{{ html | h }}", "&lt;b&gt;&amp;amp;&quot;&#39;"),
        ("{{ html | escape_once }}", "&lt;b&gt;&amp;&quot;&#39;"),
        ("{{ '<script>x</script>a<!-- c -->b<style>y</style><p>c</p>' | strip_html }}", "abc"),
        ("{{ 'a < b > c' | strip_html }}", "a  c"),
        ("{{ 'a<b' | strip_html }}", "a<b"),
        ("{{ 'a+b%26c' | url_decode }}", "a b&c"),
        ("{{ '%ff' | url_decode }}", "Liquid error: invalid byte sequence in UTF-8"),
        ("{{ 'aGk=' | base64_decode }}", "hi"),
        ("{{ '!!' | base64_decode }}", "Liquid error: invalid base64 provided to base64_decode"),
        ("{{ nothing | slice: 1 }}", ""),
        ("{{ text | slice: -3, 2 }}", "rl"),
        ("{{ text | slice: -20, 3 }}", ""),
        ("{{ text | slice: 1, -1 }}", ""),
        ("{{ list | slice: 1, 2 }}", "12"),
    ],
)
def test_text_filters(template: str, expected: str) -> None:
    assert rendered(template) == expected


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{{ '12abc' | plus: 1 }}", "13"),
        ("{{ '-3x' | abs }}", "3"),
        ("{{ 'x' | plus: 1 }}", "1"),
        ("{{ n | size }}{{ text | size }}{{ map | size }}{{ nothing | size }}", "81110"),
        ("{{ list | sum }}", "6"),
        ("{{ 'a,2' | split: ',' | sum }}", "2"),
        ("{{ rows | sum: 'v' }}", "3"),
    ],
)
def test_number_filters(template: str, expected: str) -> None:
    assert rendered(template) == expected


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        *((f"{{{{ nothing | {name} | join }}}}", "") for name in ("sort", "map: 'x'", "reverse", "uniq", "where: 'x'")),
        ("{{ nothing | join: ',' }}", ""),
        ("{{ nothing | concat: list | join }}", "3 1 2"),
        ("{{ list | concat: a }}", "Liquid error: concat filter requires an array argument"),
        ("{{ list | sort | join }}", "1 2 3"),
        ("{{ mixed | compact | sort | join }}", "Liquid error: cannot sort values of incompatible types"),
        ("{{ rows | sort: 'v' | map: 'n' | join }}", "y z x"),
        ("{{ list | map: 'x' }}", "Liquid error: cannot select the property 'x'"),
        ("{{ nothing | date: '%Y' }}|{{ list | date: '%Y' }}|{{ 'now' | date: '' }}", "|312|now"),
        ("{{ 0 | date: '%Y' }}{{ '86400' | date: '-%d' }}", "1970-02"),
        ("{{ 99999999999999999 | date: '%Y' }}", "9999"),
        ("{{ 2.5 | date: '%Y' }}{{ 'x' | date: '%Y' }}", "2.5x"),
        ("{{ odd | join: '|' }}", '1|1.0|true||1|{"k"=>1}'),
        ("{{ odd | uniq | size }}{{ 'b,a,b' | split: ',' | uniq | join }}", "6b a"),
        ("{{ rows | uniq: 'v' | size }}{{ rows | compact: 'v' | size }}", "32"),
        ("{{ 'b,A,c' | split: ',' | sort_natural | join }}", "A b c"),
        ("{{ rows | sort_natural: 'n' | map: 'n' | join }}", "x y z"),
        ("{{ rows | where: 'v' | size }}{{ rows | where: 'v', 1 | map: 'n' }}", "2y"),
        ("{{ rows | reject: 'v' | map: 'n' }}{{ rows | reject: 'v', 1 | size }}", "x2"),
        ("{{ rows | has: 'n', 'y' }}{{ rows | find_index: 'n', 'y' }}[{{ rows | find: 'n', 'q' }}]", "true1[]"),
        ("{{ list | where: 'k' }}", "Liquid error: cannot select the property 'k'"),
        ("[{{ 2.5 | where: 'k' }}{{ yes | has: 'k' }}{{ 2.5 | sort: 'k' }}{{ yes | uniq: 'k' }}]", "[]"),
        ("{{ a | append: nothing }}{{ a | prepend: nothing }}{{ a | append: yes }}", "xxxtrue"),
    ],
)
def test_list_filters(template: str, expected: str) -> None:
    assert rendered(template) == expected


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("a > 3", "Liquid error: comparison of String with 3 failed"),
        ("3 > a", "Liquid error: comparison of Integer with String failed"),
        ("2.5 < a", "Liquid error: comparison of Float with String failed"),
        ("list > 3", "no"),
        ("map > 3", "no"),
        ("yes < 3", "no"),
        ("nothing < 3", "no"),
        ("a > 'a'", "yes"),
        ("n >= 5 and n <= 5.0", "yes"),
        ("n contains 5", "no"),
        ("'15' contains n", "yes"),
        ("map contains 'k'", "yes"),
        ("list contains nothing", "no"),
        ("map contains list", "no"),
        ("list contains yes", "no"),
        ("list contains 1.0", "yes"),
        ("(1..999999999) contains yes", "no"),
        ("(1..999999999) contains n", "yes"),
        ("nothing == blank", "yes"),
        ("no == blank", "yes"),
        ("0 == blank", "no"),
        ("yes == 1", "no"),
    ],
)
def test_conditions_compare_what_can_be_compared(condition: str, expected: str) -> None:
    assert rendered(f"{{% if {condition} %}}yes{{% else %}}no{{% endif %}}") == expected


@pytest.mark.parametrize(
    ("loop", "expected"),
    [
        ("list limit: 0", "none"),
        ("list limit: nothing", "312"),
        ("list offset: nothing", "312"),
        ("list offset: 5", "none"),
        ("list limit: a", "Liquid error: invalid integer"),
        ("list limit: '2'", "31"),
        ("list reversed limit: 2 offset: 1", "21"),
        ("list limit: 2 reversed", "31"),
        ("list colour: 1 limit: 2 please", "31"),
    ],
)
def test_loops_read_their_limits(loop: str, expected: str) -> None:
    assert rendered(f"{{% for i in {loop} %}}{{{{ i }}}}{{% else %}}none{{% endfor %}}") == expected


def test_a_loop_goes_on_where_the_last_one_ended() -> None:
    template = "{% for i in list limit: 2 %}{{ i }}{% endfor %}-{% for i in list offset: continue %}{{ i }}{% endfor %}"
    assert rendered(template) == "31-2"


def test_a_loop_that_is_too_long_leaves_the_template_as_it_is() -> None:
    template = "{% for i in (1..1000000000) reversed %}{{ i }}{% endfor %}"
    assert rendered(template) == template


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("a{% break %}b", "a"),
        ("a{% continue %}b", "a"),
        ("{% if a %}x{% endif of if %}", "x"),
        ("{% assign a.b = 1 %}[{{ a.b }}]", "[]"),
        ("{% capture z and more %}q{% endcapture %}{{ z }}", "q"),
        ("{% case a please %}{% when 'y' or 'x' please %}c{% endcase %}", "c"),
        ("a{% include 'x' %}b", "aLiquid error: This liquid context does not allow includes.b"),
        ("[{{ true.x }}{{ nil.x }}{{ list.0 }}{{ list[1.5] }}{{ or }}{{ -a }}]", "[]"),
        ("{{ a | 0 }}{{ a | if }}{{ a | append: empty }}", "xxx"),
    ],
)
def test_careless_templates_render(template: str, expected: str) -> None:
    assert rendered(template) == expected


@pytest.mark.parametrize("name", ["limit", "if", "or", "with", "first", "size", "true", "0", "-x"])
def test_any_word_may_name_a_chat_variable(name: str) -> None:
    store = InMemoryVariablesStore()
    store.set(name, "v", LOCAL)
    template = (
        f"{{{{ var.{name} | upcase }}}}{{{{ 'a' | append: var.{name} }}}}"
        f"{{% if a and var.{name} == 'v' %}}y{{% endif %}}{{% case var.{name} %}}{{% when 'v' %}}c{{% endcase %}}"
    )
    assert render_liquid(template, assigns=GIVEN, variables=store) == "Vavyc"


def test_chat_variables_have_no_size_of_their_own() -> None:
    store = InMemoryVariablesStore()
    store.set("mood", "happy", LOCAL)
    assert render_liquid("[{{ var.size }}{{ var.first }}]", variables=store) == "[]"


@pytest.mark.parametrize("template", ["{{ gone | escape }}", "{{ gone | sort }}", "{% if gone < 1 %}{% endif %}"])
def test_what_is_not_defined_is_an_error_where_errors_are_raised(template: str) -> None:
    with pytest.raises(LiquidError) as raised:
        render_liquid(template, strict=True)
    assert raised.value.kind == "undefined_variable"


def test_a_list_has_nothing_beyond_its_end() -> None:
    assert render_liquid("[{{ list[9] }}]", assigns=GIVEN, strict=True) == "[]"


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("a {%- raw %} x {% endraw -%} b", "a x b"),
        ("a{% raw %}x{% endraw -%} {{ a }}", "axx"),
        ("a {% raw -%} x {% endraw %} b", "a  x  b"),
        ("{% raw -%}x{% endraw %} {{ a }}", "x x"),
        ("{% raw -%}x{% endraw %} {{- a }}", "xx"),
        ("{% raw -%}x{% endraw %} {% raw %} y{% endraw %}", "x  y"),
        ("{% raw -%}x{% endraw %} ", "x "),
    ],
)
def test_the_end_of_a_raw_block_says_whether_blanks_behind_it_go(template: str, expected: str) -> None:
    assert rendered(template) == expected
