"""Liquid macros: limits, determinism, and what the vectors do not show."""

from __future__ import annotations

import sys

import pytest

from tavernkit.cards._character import Character, User
from tavernkit.errors import ConfigError
from tavernkit.stores._variables import InMemoryVariablesStore
from tavernkit.vibe_tavern._liquid_macros import render as render_module
from tavernkit.vibe_tavern._liquid_macros.render import build_assigns, render_liquid
from tavernkit.vibe_tavern.errors import LiquidError


@pytest.mark.parametrize(
    "template",
    [
        pytest.param("{% for i in (1..300000) %}ab{% endfor %}", id="output"),
        pytest.param("{% for i in (1..1000000000) %}{% endfor %}", id="loop"),
        pytest.param(
            "{% assign s = 'aaaaaaaaaa' %}{% for i in (1..40) %}{% assign s = s | append: s %}{% endfor %}",
            id="doubling",
        ),
        pytest.param(
            "{% assign n = 99 %}{% for i in (1..60) %}{% assign n = n | times: n %}{% endfor %}", id="numbers"
        ),
        pytest.param(
            "{% for i in (1..40) %}{% addvar s = 'aaaaaaaaaa' %}{% addvar s = var.s %}{% endfor %}",
            id="store",
        ),
    ],
)
def test_limits_end_a_template_and_leave_its_text(template: str) -> None:
    warnings: list[str] = []
    store = InMemoryVariablesStore()
    assert render_liquid(template, variables=store, warn=warnings.append) == template
    assert len(warnings) == 1
    with pytest.raises(LiquidError) as caught:
        render_liquid(template, variables=store, strict=True)
    assert caught.value.kind == "memory_error"


def test_output_of_exactly_the_limit_is_allowed() -> None:
    assert len(render_liquid("{% for i in (1..20000) %}abcdefghij{% endfor %}")) == 200_000


@pytest.mark.parametrize(
    ("template", "kind"),
    [
        ("{{ 1 | divided_by: 0 }}", "zero_division"),
        ("{% if nothing %}x{% endif %}", "undefined_variable"),
        ("{% setvar a = nothing %}", "undefined_variable"),
        ("{{ 1 | modulo: 0 }}", "zero_division"),
        ("{{ 1 | divided_by: 0.0 }}", "zero_division"),
        ("{{ 1.5 | modulo: '0.0' }}", "zero_division"),
        ("{{ var.nothing }}", "undefined_drop_method"),
        ('{{ global["nothing"] }}', "undefined_drop_method"),
        ("{% if var.nothing %}x{% endif %}", "undefined_drop_method"),
        ("{% if x %}", "syntax_error"),
        ("{% setvar = 1 %}", "syntax_error"),
        ("{% incvar a b %}", "syntax_error"),
    ],
)
def test_strict_mode_names_the_kind_of_error(template: str, kind: str) -> None:
    with pytest.raises(LiquidError) as caught:
        render_liquid(template, variables=InMemoryVariablesStore(), strict=True)
    assert caught.value.kind == kind


def test_half_characters_are_printed_and_count_as_three_bytes() -> None:
    assert render_liquid("a\ud83d {{ x }}{% capture y %}{{ x }}{% endcapture %}{{ y }}", assigns={"x": "\udc00"}) == (
        "a\ud83d \udc00\udc00"
    )
    text = "\ud83d{% for i in (1..66667) %}{{ x }}{% endfor %}"
    assert render_liquid(text, assigns={"x": "\udc00"}) == text


def test_errors_inside_blocks_are_printed_where_they_happen() -> None:
    text = "a{% if true %}b{{ 1 | modulo: 0 }}c{% endif %}d"
    assert render_liquid(text) == "abLiquid error: divided by 0cd"


def test_printed_errors_are_warned_of_with_their_line():
    warnings: list[str] = []
    text = "a\n{% for i in (1..3) %}{{ i | modulo: 0 }}{% endfor %}\n{{ l | sort }}"
    render_liquid(text, assigns={"l": [1, "a"]}, warn=warnings.append)
    assert [warning.partition("printed ")[2] for warning in warnings] == [
        "an error, line 2: divided by 0",
        "an error, line 3: cannot sort values of incompatible types",
    ]


def test_many_printed_errors_are_counted():
    warnings: list[str] = []
    render_liquid("{{ 1 | modulo: 0 }}\n" * 20, warn=warnings.append)
    assert len(warnings) == 9
    assert warnings[-1].endswith("printed 12 other errors")


def test_errors_of_the_language_we_are_written_in_are_not_printed():
    warnings: list[str] = []
    text = "{% assign n = 7 %}{% for i in (1..14) %}{% assign n = n | times: n %}{% endfor %}{{ n }}"
    assert render_liquid(text, warn=warnings.append) == "Liquid error: internal"
    assert "digits" in warnings[0]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "1e999"])
def test_a_time_or_a_counter_that_is_no_finite_number_is_none(value: object):
    rendered = render_liquid("{{ x | isodate }} {{ 'a,b' | pick: x }}", assigns={"x": value}, now_ms=lambda: 0)
    assert rendered == render_liquid("{{ 0 | isodate }} {{ 'a,b' | pick }}", now_ms=lambda: 0)


def test_now_comes_from_the_caller() -> None:
    template = '{{ "now" | date: "%Y-%m-%d" }} {{ "" | isodate }} {{ 86400 | date: "%d" }}'
    assert render_liquid(template, now_ms=lambda: 1_700_000_000_000) == "2023-11-14 2023-11-14 02"


def test_values_print_the_same_in_every_language() -> None:
    assigns = {"l": [1, None, [True, "x"]], "h": {"k": ["v", None]}, "r": None}
    assert render_liquid("{{ l }}|{{ h }}|{{ r }}|{{ (1..3) }}", assigns=assigns) == '1truex|{"k"=>["v", nil]}||1..3'


def test_templates_do_not_see_each_others_variables() -> None:
    render_liquid("{% assign leak = 'x' %}{{ leak }}")
    assert render_liquid("[{{ leak }}]") == "[]"


def test_dice_are_bounded_and_bad_dates_do_not_raise() -> None:
    assert render_liquid("{{ '999999999d1' | rollp }}") == "1000"
    assert render_liquid("{{ 99999999999999999999 | isodate }}") == "9999-12-31"


def test_assigns_describe_card_user_and_context() -> None:
    card = Character(name="Sera", nickname="Sephy", description="d", mes_example="e", scenario=" ")
    assigns = build_assigns(card, User("Ann", "tall"), {"model": "m", "nested": {"a": [1]}})
    assert assigns["char"] == "Sephy"
    assert (assigns["user"], assigns["persona"], assigns["mes_examples"]) == ("Ann", "tall", "e")
    assert assigns["scenario"] is None
    assert assigns["model"] == "m"
    assert assigns["context"] == {"model": "m", "nested": {"a": [1]}}


def test_line_ends_stay_as_they_are() -> None:
    assert render_liquid("a\r\nb\rc{% capture x %}\r\n{% endcapture %}[{{ x }}]") == "a\r\nb\rc[\r\n]"


def test_floats_are_written_with_a_point_even_before_an_exponent():
    values = {"large": 1e20, "small": 1.5e-7, "whole": 2.0, "none": float("inf")}
    assert (
        render_liquid("{{ large }} {{ small }} {{ whole }} {{ none }}", assigns=values)
        == "1.0e+20 1.5e-07 2.0 Infinity"
    )


def test_halves_are_rounded_away_from_zero():
    assert render_liquid('{{ 2.5 | round }} {{ -2.5 | round }} {{ "0.5" | round }}') == "3 -3 1"


def test_an_output_with_nothing_inside_prints_nothing():
    assert render_liquid("a{{ }}b{{}}c") == "abc"
    assert render_liquid("a {{- -}} b", strict=True) == "ab"


def test_without_the_extra_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "liquid" or "liquid_macros.engine" in name]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "liquid", None)
    render_module._environment.cache_clear()
    with pytest.raises(ConfigError, match=r"tavernkit\[liquid\]"):
        render_liquid("{{ 1 }}")
