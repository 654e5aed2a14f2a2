from __future__ import annotations

import pytest

from tavernkit._workers import StuckError
from tavernkit._workers import pool as pools
from tavernkit.errors import noting_degraded
from tavernkit.risu_ai._chat.prompt_message import PromptMessage
from tavernkit.risu_ai._chat_templates import template as template_module
from tavernkit.risu_ai._chat_templates.template import NAMED_TEMPLATES, ChatTemplate, apply_named_template
from tavernkit.risu_ai._limits import MAX_TEMPLATE_CHARACTERS
from tavernkit.risu_ai.errors import ChatTemplateError
from tests.quickness import at_most, linear_time


def messages(*pairs: tuple[str, str]) -> list[PromptMessage]:
    return [PromptMessage(role=role, content=content) for role, content in pairs]


CHAT = messages(("user", "Hi"), ("assistant", "Yo"), ("user", "Bye"))


def test_chatml_and_its_twin():
    turns = "".join(f"<|im_start|>{each.role}\n{each.content}<|im_end|>\n" for each in CHAT)
    assert (
        apply_named_template("chatml", CHAT) == apply_named_template("gpt2", CHAT) == f"{turns}<|im_start|>assistant\n"
    )


def test_gemma_calls_the_assistant_a_model():
    said = [("user", "Hi"), ("model", "Yo"), ("user", "Bye")]
    turns = "".join(f"<start_of_turn>{role}\n{text}<end_of_turn>\n" for role, text in said)
    assert apply_named_template("gemma", CHAT) == f"{turns}<start_of_turn>model\n"


def test_mistral_wraps_what_the_user_says():
    assert apply_named_template("mistral", CHAT) == " [INST] Hi [/INST] Yo  [INST] Bye [/INST]"


def test_vicuna_starts_with_the_system_or_a_text_of_its_own():
    own = apply_named_template("vicuna", CHAT)
    assert own.startswith("A chat between")
    assert own.endswith("USER: Hi\nASSISTANT: Yo</s>\nUSER: Bye\nASSISTANT:")
    assert apply_named_template("vicuna", messages(("system", "S"), ("user", "Hi"))) == "S\n\nUSER: Hi\nASSISTANT:"


def test_every_named_format_takes_a_plain_chat():
    for name in NAMED_TEMPLATES:
        assert "Bye" in apply_named_template(name, CHAT)


def test_messages_of_other_roles_are_not_shown():
    found = ChatTemplate("{{ messages | length }}").render(messages(("user", "a"), ("function", "b")))
    assert found == "1"


def test_templates_that_risu_ai_cannot_run_are_rendered_with_a_warning():
    warnings: list[str] = []
    template = ChatTemplate("{{ 'a' ~ 1 }}{{ 7 // 2 }}{{ nope | default('d') }}{{ {'x': 1} | tojson }}")
    assert template.render([], warn=warnings.append) == 'a13d{"x": 1}'
    assert len(warnings) == 4


@pytest.mark.parametrize(
    "text",
    [
        "{{ ''.__class__.__mro__() }}",
        "{{ cycler.__init__.__globals__.os.system('x') }}",
        "{{ lipsum() }}",
        "{% include 'x' %}",
        "{% import 'x' as y %}",
        "{{ messages.append(1) }}",
        "{{ 'a' * 1000000000 }}",
        "{{ '%999999999d' % 1 }}",
        "{{ 'x' | center(1000000000) }}",
        "{{ 2 ** 100000 }}",
        "{{ range(100000000) | list }}",
        "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
        "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
        "{{ raise_exception('no') }}",
        "{% if %}",
        "{{ 'a' / 2 }}",
        "{{ 'a' % 2 }}",
    ],
)
def test_a_hostile_or_broken_template_is_refused(text: str):
    with pytest.raises(ChatTemplateError):
        ChatTemplate(text).render(CHAT, warn=lambda _: None)


@pytest.mark.parametrize(
    "grown",
    [
        "ns.x + ns.x",
        "ns.x ~ ns.x",
        "ns.x | replace('a', ns.x)",
        "[ns.x, ns.x] | join",
        "[ns.x, ns.x]",
        "(ns.x, ns.x)",
        "{'a': ns.x, 'b': ns.x}",
        "dict(a=ns.x, b=ns.x)",
    ],
)
def test_a_template_that_doubles_a_value_again_and_again_is_stopped(grown: str):
    loop = f"{{% for i in range(64) %}}{{% set ns.x = {grown} %}}{{% endfor %}}"
    with pytest.raises(ChatTemplateError, match="too long"):
        ChatTemplate(f"{{% set ns = namespace(x='ab') %}}{loop}{{{{ ns.x }}}}").render([], warn=lambda _: None)


@pytest.mark.parametrize(
    "name",
    [
        "messages.__class__",
        "self._TemplateReference__context",
        "messages[0].content.__class__",
        "''.__class__.__mro__",
        "cycler.__init__.__globals__.os",
    ],
)
def test_the_sandbox_shows_no_attributes_of_python(name: str):
    assert ChatTemplate(f"[{{{{ {name} }}}}]").render(CHAT) == "[]"


def plain(template: str, *, strict: bool = False) -> str:
    return ChatTemplate(template).render(CHAT, warn=lambda _: None, strict=strict)


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{{ nope.x.y }}|{{ messages[9].content }}|{{ messages[0].nope.x }}", "||"),
        ("{{ messages.length }} {{ 'a😀'.length }} {{ messages['length'] }} {{ (1, 2).length }}", "3 3 3 2"),
        ("{{ messages | selectattr('role', 'equalto', 'user') | length }}", "2"),
        ("{{ (messages | reverse | first).content }} {{ 'abc' | reverse }}", "Bye cba"),
        ("{{ messages | map(attribute='role') | first }}{{ ({'a': 1} | items)[0][0] }}", "usera"),
        ("{{ -7 % 3 }} {{ 5 % 0 }} {{ 1 / 0 }} {{ -1 / 0 }} {{ 0 / 0 }}", "-1 NaN Infinity -Infinity NaN"),
        ("{{ 6 / 2 }} {{ messages[4 / 2].content }} {{ messages[5 % 3].content }}", "3 Bye Bye"),
        (
            "{{ 'be NICE' | title }} {{ 'be NICE' | capitalize }} {{ 'ß' | upper }} {{ 'ÀB' | lower }}",
            "Be NICE Be NICE SS àb",
        ),
        ("[{{ '\ufeff a\x1c ' | trim }}] {{ 'xax' | trim('x') }}", "[a\x1c] a"),
        (
            "{{ messages }} {{ messages[0] }} {{ (1, 2) }}",
            "[object Object],[object Object],[object Object] [object Map] [object Object],[object Object]",
        ),
    ],
)
def test_values_are_those_of_javascript(template: str, expected: str):
    assert plain(template) == expected


@pytest.mark.parametrize(
    "template",
    [
        "{{ nope.x }}",
        "{% for x in nope %}{% endfor %}",
        "{% for x in 'abc' %}{% endfor %}",
        "{% for x in messages[0] %}{% endfor %}",
        "{% macro f() %}{% endmacro %}",
        "{% for x in messages if x %}{% endfor %}",
        "{% for x in messages %}{% else %}e{% endfor %}",
        "{% set x %}a{% endset %}",
        "{% with x = 1 %}{% endwith %}",
        "{% filter upper %}a{% endfilter %}",
        "{{ 2 ** 3 }}",
        "{{ 'a' is string }}",
        "{{ 'a b'.split() }}",
        "{{ messages | map(attribute='role') | join }}",
    ],
)
def test_what_risu_ai_cannot_run_is_refused_in_strict_mode_only(template: str):
    plain(template)
    with pytest.raises(ChatTemplateError):
        plain(template, strict=True)


def test_a_name_without_a_value_may_be_printed_and_tested_in_strict_mode():
    assert plain("[{{ nope }}{% if nope %}y{% endif %}{{ nope is defined }}]", strict=True) == "[false]"


def test_llama3_begins_with_its_first_message():
    assert apply_named_template("llama3", []) == "<|start_header_id|>assistant<|end_header_id|>\n\n"


def test_llama2_trims_the_first_message_together_with_the_system():
    chat = messages(("system", " S "), ("user", " Hi "))
    assert apply_named_template("llama2", chat) == "<|begin_of_text|>[INST] <<SYS>>\nS\n<</SYS>>\n\n Hi [/INST]"


def test_lists_and_dictionaries_work():
    text = "{% for a, b in [(1, 2), (3, 4)] %}{{ a + b }},{% endfor %}{{ {'k': 'v'}.k }}{{ ['x', 'y'] | join('-') }}"
    assert ChatTemplate(text).render([]) == "3,7,vx-y"


def test_a_template_that_is_too_long_is_refused():
    with pytest.raises(ChatTemplateError, match="characters"):
        ChatTemplate("x" * (MAX_TEMPLATE_CHARACTERS + 1))


def test_an_unknown_name_is_refused_with_the_known_ones():
    with pytest.raises(ChatTemplateError, match="llama3"):
        apply_named_template("nope", CHAT)


def test_numbers_and_truth_are_printed_as_javascript_prints_them():
    assert ChatTemplate("{{ 4 / 2 }} {{ true }} {{ none }} {{ 0.1 + 0.2 }}").render([]) == "2 true  0.30000000000000004"


def test_texts_and_numbers_are_put_together_and_counted_as_in_javascript():
    template = "{{ 'n=' + messages | length }} {{ 1.0 + 'x' }} {{ 'is ' + true }} {{ 'a😀' | length }}"
    assert apply_named_template("jinja", CHAT, jinja=template) == "n=3 1x is true 3"
    with pytest.raises(ChatTemplateError):
        apply_named_template("jinja", CHAT, jinja="{{ 'a' + messages }}")


GROWN = "{% set ns = namespace(a='x ') %}{% for i in range(20) %}{% set ns.a = ns.a ~ ns.a %}{% endfor %}"


@pytest.mark.parametrize(
    "template",
    [
        "{{ '{:>1000000000}'.format(1)|length }}",
        "{{ '{a:>1000000000}'.format_map({'a': 1})|length }}",
        "{{ 'a'.ljust(1000000000)|length }}",
        "{{ 'a'.zfill(1000000000)|length }}",
        GROWN + "{{ ns.a.replace('x', ns.a)|length }}",
        GROWN + "{{ ns.a.join(range(1000))|length }}",
        GROWN + "{% for i in range(90000) %}{% set b = ns.a|replace('x', 'y') %}{% endfor %}",
        GROWN + "{% set b = ns.a|replace('x', 'y') %}" * 4000,
        GROWN + "{% set b = ns.a.split(' ') %}" * 4000,
        "{% set a = range(100000)|list %}{% for i in range(10000) %}{% set b = a|sort %}{% endfor %}",
    ],
)
def test_a_template_that_takes_all_memory_or_time_is_refused(template: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(template_module, "MAX_TEMPLATE_SECONDS", 0.5)
    with at_most(2), pytest.raises(ChatTemplateError):
        ChatTemplate(template).render([], warn=lambda message: None)


def test_methods_of_texts_and_blocks_go_on_working() -> None:
    template = (
        "{{ 'a-b'.replace('-', '+') }}{{ ','.join(['a', 'b']) }}{% filter upper %}c{{ 'D'|lower }}{% endfilter %}"
    )
    assert ChatTemplate(template).render([], warn=lambda message: None) == "a+ba,bCD"
    called = (
        "{% macro m(x) %}{{ x }}{{ caller() }}{% endmacro %}{% call m('a'.upper()) %}{{ 'b'.upper() }}{% endcall %}"
    )
    assert ChatTemplate(called).render([], warn=lambda message: None) == "AB"


@pytest.mark.parametrize("depth", [25, 60, 200, 1000])
def test_blocks_that_are_nested_too_deep_are_an_error_of_the_template(depth: int) -> None:
    loops = "{% for one in messages %}" * depth + "x" + "{% endfor %}" * depth
    choices = "{% if messages %}" * (4 * depth) + "x" + "{% endif %}" * (4 * depth)
    for text in (loops, choices):
        with linear_time(), pytest.raises(ChatTemplateError, match=r"nests blocks|cannot be read"):
            ChatTemplate(text)


def test_a_sum_that_is_too_long_for_python_is_an_error_of_the_template() -> None:
    with pytest.raises(ChatTemplateError, match="cannot be read"):
        ChatTemplate("{{ " + "1 + " * 200 + "1 }}")


DOUBLED = "{% set x %}{{ x }}{{ x }}{% endset %}"


@pytest.mark.parametrize(
    "template",
    [
        "{% set x = 'aaaaaaaaaaaaaaaaaaaa' %}" + DOUBLED * 30,
        "{% set x = 'aaaaaaaaaaaaaaaaaaaa' %}" + "{% set x = x|tojson|tojson|tojson %}" * 30,
        "{% macro m(x) %}{{ x }}{{ x }}{% endmacro %}{% set x = 'aaaaaaaaaaaa' %}" + "{% set x = m(x) %}" * 30,
        "{% macro m() %}{{ caller() }}{{ caller() }}{% endmacro %}"
        + "{% call m() %}" * 30
        + "aaaaaaaa"
        + "{% endcall %}" * 30,
        "{% if a %}" + "{% elif a %}" * 15_000 + "{% endif %}",
        "{{ " + "a~" * 90_000 + "a }}",
    ],
    ids=["set", "tojson", "macro", "call", "elif", "concatenation"],
)
def test_a_template_that_nothing_inside_can_bound_takes_nothing_of_this_process(
    template: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    resource = pytest.importorskip("resource", reason="there is no way to ask for the memory of this process")
    monkeypatch.setattr(template_module, "MAX_TEMPLATE_SECONDS", 1.0)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with at_most(2), pytest.raises(ChatTemplateError):
        ChatTemplate(template).render([], warn=lambda message: None)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000
    assert ChatTemplate("{{ 1 + 1 }}").render([]) == "2"


def test_a_stuck_machine_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    class StuckPool:
        def run(self, *_: object) -> bytes:
            raise StuckError("did not end within 50 seconds on this machine")

    monkeypatch.setattr(pools, "pool", StuckPool())
    with noting_degraded() as reasons, pytest.raises(ChatTemplateError, match="too busy"):
        ChatTemplate("x")
    assert reasons == ["a chat template did not end within 50 seconds on this machine"]
