"""Careless templates: what makes sense in them is rendered, as lax Liquid does."""

from __future__ import annotations

import pytest

from tavernkit.stores._variables import InMemoryVariablesStore
from tavernkit.vibe_tavern._liquid_macros.lax import condition_source, filtered_source
from tavernkit.vibe_tavern._liquid_macros.render import render_liquid
from tavernkit.vibe_tavern.errors import LiquidError

ASSIGNS = {"user": "Ann", "on": True, "names": ["a", None, {"k": 1.0}], "box": {"a b": "x"}}


@pytest.mark.parametrize(
    ("template", "output"),
    [
        ("{{ user | }}", "Ann"),
        ('{{ "a" "b" }}', "a"),
        ("{{ user user }}", "Ann"),
        ("{{ user & nothing }}", "Ann"),
        ("{{ user. }}{{ .user }}{{ user! }}", "AnnAnnAnn"),
        ("{{ 1 + 2 }}", "1"),
        ("{{ 1+2 }}", ""),
        ("{{ - }}", ""),
        ("{{ | upcase }}", ""),
        ("{{ user || upcase }}", "ANN"),
        ("{{ user | upcase upcase }}", "ANN"),
        ('{{ user | append: "x" "y" }}', "Annx"),
        ('{{ user user | append: "|", | upcase }}', "ANN|"),
        ('{{ nothing & | default: "z", allow_false: true }}', "z"),
        ('{{ box["a b"] ! }}', "x"),
        ('{{ (1..2) ! | join: "-" }}', "1-2"),
        ('{{ "unclosed }}', ""),
        ("{% echo user ! %}", "Ann"),
        ("{% assign x = 1 2 %}{{ x }}", "1"),
        ("{% assign x = %}[{{ x }}]", "[]"),
        ("{% capture 'x' %}1{% endcapture %}{{ x }}", "1"),
        ("{% if 1 > 0 junk %}y{% endif %}", "y"),
        ("{% if user == %}y{% else %}n{% endif %}", "n"),
        ("{% if user & on %}y{% endif %}", "y"),
        ('[{% if user = "Ann" %}y{% endif %}]', "[Liquid error: Unknown operator =]"),
        ("{% if not on %}y{% endif %}", "Liquid error: Unknown operator on"),
        ("{% if user == [0] %}y{% else %}n{% endif %}", "n"),
        ('{% if on %}y{% elsif user is "Ann" %}n{% endif %}', "y"),
        ('{% unless on and user === "Ann" %}n{% endunless %}', "Liquid error: Unknown operator ==="),
        ('{% if nothing %}{% elsif user == "a and b" ! or user contains "n" ! %}y{% endif %}', "y"),
        ('{% case "a or b" %}{% when "x", "a or b" ! %}y{% endcase %}', "y"),
        ("{% unless user ; %}n{% else %}y{% endunless %}", "y"),
    ],
)
def test_what_can_be_read_is_rendered_and_the_rest_is_passed_over(template: str, output: str) -> None:
    assert render_liquid(template, assigns=ASSIGNS) == output


@pytest.mark.parametrize(
    "template",
    [
        "{% assign x %}",
        "{% assign = 1 %}",
        "{% if %}y{% endif %}",
        "{% if user and %}y{% endif %}",
        "{% for i names %}{% endfor %}",
    ],
)
def test_what_cannot_be_read_at_all_leaves_the_text(template: str) -> None:
    assert render_liquid(template, assigns=ASSIGNS) == template
    with pytest.raises(LiquidError) as caught:
        render_liquid(template, assigns=ASSIGNS, strict=True)
    assert caught.value.kind == "syntax_error"


def test_the_right_side_of_a_variable_is_read_as_carelessly() -> None:
    store = InMemoryVariablesStore()
    assert render_liquid('{% setvar a = "x" "y" %}{% setvar b = empty %}{{ var.a }}', variables=store) == "x"
    assert store.to_dict()["local"] == {"a": "x", "b": ""}


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{{ user | append }}", "given 1, expected 2"),
        ('{{ user | append: "a", "b" }}', "given 3, expected 2"),
        ("{{ user | slice: 1, 2, 3 }}", "given 4, expected 2..3"),
        ("{{ user | upcase, 1 }}", "given 2, expected 1"),
    ],
)
def test_filters_say_how_many_arguments_they_take(template: str, message: str) -> None:
    assert render_liquid(template, assigns=ASSIGNS) == f"Liquid error: wrong number of arguments ({message})"
    with pytest.raises(LiquidError) as caught:
        render_liquid(template, assigns=ASSIGNS, strict=True)
    assert caught.value.kind == "argument_error"


def test_filters_that_work_on_text_read_values_as_liquid_writes_them() -> None:
    assert render_liquid('{{ on | append: on }} {{ "x" | append: nothing }}', assigns=ASSIGNS) == "truetrue x"
    assert render_liquid("{{ names | upcase }}", assigns=ASSIGNS) == '["A", NIL, {"K"=>1.0}]'
    assert render_liquid("{{ names | slice: 0 | join: '' }}", assigns=ASSIGNS) == "a"


@pytest.mark.parametrize(
    ("template", "output"),
    [
        ('{{ "a,,b,," | split: "," | join: "-" }}', "a--b"),
        ('{{ "a b" | split: " " | join: nothing }}', "ab"),
        ('{{ "a b" | split: " " | join }}', "a b"),
        ("{{ on | plus: 1 }}{{ 2 | times: on }}", "10"),
        ("{{ on | divided_by: 2 }}", "0"),
    ],
)
def test_filters_do_as_in_liquids_own_language(template: str, output: str) -> None:
    assert render_liquid(template, assigns=ASSIGNS) == output


def test_only_commas_can_be_escaped_in_what_is_picked_from() -> None:
    picked = {render_liquid(f"{{{{ v | pick: {at} }}}}", assigns={"v": r"a\,b:c\:d"}) for at in range(40)}
    assert picked == {"a,b", "c\\", "d"}


@pytest.mark.parametrize("piece", ['"', "'\"", "a:", "a.", "|", "a and ", "[", "(a..", ",'", "=="])
def test_long_careless_expressions_are_read_in_no_time(piece: str) -> None:
    text = piece * 20_000
    assert len(filtered_source(text)) <= 3 * len(text)
    assert len(condition_source(text) or "") <= 3 * len(text)
