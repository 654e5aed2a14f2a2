"""No text can make an expansion endless or huge; every limit that is hit is reported once."""

from __future__ import annotations

import pytest

from tavernkit.cards import Character
from tavernkit.silly_tavern._macros import (
    LegacyMacroEngine,
    MacroEngine,
    MacroEnvironment,
    Overrides,
    default_registry,
    run,
)
from tavernkit.silly_tavern._macros.limits import MAX_DEPTH, MAX_DICE, MAX_OUTPUT_CHARS, MAX_RESOLVE_DEPTH
from tavernkit.silly_tavern.errors import MacroRecursionError
from tavernkit.stores import InMemoryVariablesStore

ENGINE = MacroEngine()


def expand(text: str, variables: dict[str, str] | None = None) -> tuple[str, list[str]]:
    warnings: list[str] = []
    environment = MacroEnvironment(user_name="Ann", variables=InMemoryVariablesStore({"local": variables or {}}))
    return ENGINE.expand(text, environment, warn=warnings.append), warnings


def test_a_thousand_nested_ifs_are_evaluated() -> None:
    assert expand("{{if 1}}" * 1000 + "x" + "{{/if}}" * 1000) == ("x", [])


def test_a_thousand_nested_arguments_are_evaluated() -> None:
    assert expand("{{reverse::" * 1000 + "ab" + "}}" * 1000) == ("ab", [])


def test_a_thousand_nested_shorthands_are_evaluated() -> None:
    text, warnings = expand("{{.x = " * 1000 + "ab" + "}}" * 1000 + "{{.x}}")
    assert (text, warnings) == ("", [])


def test_what_is_nested_deeper_stays_as_text() -> None:
    depth = MAX_DEPTH + 10
    text, warnings = expand("{{if 1}}" * depth + "x" + "{{/if}}" * depth)
    assert text == "{{if 1}}" * 10 + "x" + "{{/if}}" * 10
    assert len(warnings) == 1
    assert f"more than {MAX_DEPTH} levels" in warnings[0]


def test_handlers_that_expand_each_other_come_to_an_end() -> None:
    registry = default_registry()
    registry.register("again", lambda call: call.resolve("<{{again}}>"))
    warnings: list[str] = []
    text = MacroEngine(registry).expand("{{again}}", MacroEnvironment(), warn=warnings.append)
    assert text.strip("<>") == "{{again}}"
    assert len(warnings) == 1


def test_nesting_too_deep_is_a_recursion_error_in_strict_mode() -> None:
    depth = MAX_DEPTH + 2
    with pytest.raises(MacroRecursionError) as raised:
        ENGINE.expand("{{if 1}}" * depth + "x" + "{{/if}}" * depth, MacroEnvironment(), strict=True)
    assert raised.value.max_depth == MAX_DEPTH
    assert raised.value.macro_name == "if"


def test_handlers_may_expand_up_to_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "MAX_RESOLVE_DEPTH", 2)
    registry = default_registry()
    registry.register("again", lambda call: call.resolve("<{{again}}>"))
    warnings: list[str] = []
    assert MacroEngine(registry).expand("{{again}}", MacroEnvironment(), warn=warnings.append) == "<<<{{again}}>>>"
    assert len(warnings) == 1


def test_a_card_text_inside_a_handler_counts_as_deeper(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = default_registry()
    registry.register("card", lambda call: call.resolve("{{description}}"))
    environment = MacroEnvironment(user_name="Ann", character=Character(name="", description="{{user}}"))
    assert MacroEngine(registry).expand("{{card}}", environment) == "Ann"
    monkeypatch.setattr(run, "MAX_RESOLVE_DEPTH", 1)
    warnings: list[str] = []
    assert MacroEngine(registry).expand("{{card}}", environment, warn=warnings.append) == "{{user}}"
    assert len(warnings) == 1


def test_only_what_is_nested_counts_as_deep() -> None:
    registry = default_registry()
    registry.register("inner", lambda call: call.resolve("{{user}}"))
    registry.register("again", lambda call: call.resolve("<{{inner}}{{again}}>"))
    environment = MacroEnvironment(user_name="A", character=Character(name="", description="{{inner}}"))
    warnings: list[str] = []
    engine = MacroEngine(registry)
    text = "{{inner}}{{description}}" * (2 * MAX_RESOLVE_DEPTH)
    assert engine.expand(text, environment, warn=warnings.append) == "AA" * (2 * MAX_RESOLVE_DEPTH)
    assert warnings == []
    nested = engine.expand("{{inner}}" * MAX_RESOLVE_DEPTH + "{{again}}", environment, warn=warnings.append)
    assert nested.count("<") == MAX_RESOLVE_DEPTH + 1


def test_macros_beyond_the_limit_of_steps_stay_as_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "MAX_STEPS", 3)
    text, warnings = expand("{{user}}{{.x}}{{user}}{{user}}{{.x}}{{user}}")
    assert text == "AnnAnn{{user}}{{.x}}{{user}}"
    assert len(warnings) == 1


def test_the_texts_of_a_card_count_with_the_text_that_asks_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "MAX_STEPS", 3)
    card = Character(name="", description="{{user}}{{user}}{{user}}")
    environment = MacroEnvironment(user_name="Ann", character=card)
    warnings: list[str] = []
    assert ENGINE.expand("{{description}}", environment, warn=warnings.append) == "AnnAnn{{user}}"
    assert len(warnings) == 1


def test_output_beyond_the_limit_stays_as_text() -> None:
    text, warnings = expand(f"{{{{space::{MAX_OUTPUT_CHARS - 1}}}}}{{{{user}}}}")
    assert text.strip() == "{{user}}"
    assert len(warnings) == 1


def test_output_may_fill_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "MAX_OUTPUT_CHARS", 6)
    assert expand("{{user}}{{user}}{{user}}")[0] == "AnnAnn{{user}}"
    assert expand("{{user}}{{.x}}{{.x}}{{user}}", {"x": "abc"})[0] == "Annabc{{.x}}{{user}}"


@pytest.mark.parametrize(
    ("limit", "value", "text", "about"),
    [
        ("MAX_OUTPUT_CHARS", 4, "{{user}}{{user}}", "output"),
        ("MAX_STEPS", 1, "{{user}}{{user}}", "steps"),
        ("MAX_STEPS", 1, "{{user}}{{.x}}", "steps"),
    ],
)
def test_a_limit_says_which_it_is_and_where_it_was_hit(
    monkeypatch: pytest.MonkeyPatch, limit: str, value: int, text: str, about: str
) -> None:
    monkeypatch.setattr(run, limit, value)
    (diagnostic,) = ENGINE.evaluate(text, MacroEnvironment(user_name="Ann"), Overrides()).diagnostics
    assert (diagnostic.kind, diagnostic.about, diagnostic.position) == ("limit", about, 8)


def test_a_variable_cannot_be_doubled_without_end() -> None:
    text, warnings = expand("{{.x = 0123456789}}" + "{{.x += {{.x}}{{.x}}}}" * 80)
    assert len(text) < 10_000
    assert len(warnings) == 1


@pytest.mark.parametrize(
    "text", ["{{space::99999999999999}}", "{{newline::16000001}}", "{{setvarkey::a::99999999::x}}"]
)
def test_a_single_call_cannot_ask_for_too_much(text: str) -> None:
    expanded, warnings = expand(text)
    assert expanded == text
    assert len(warnings) == 1


def test_too_many_dice_are_not_thrown() -> None:
    text, warnings = expand(f"[{{{{roll::{MAX_DICE + 1}d6}}}}]")
    assert text == "[]"
    assert str(MAX_DICE) in warnings[0]


def test_malformed_blocks_are_not_parsed_again_without_end() -> None:
    depth = 1500
    text, warnings = expand("{{if 1}}" * depth + "{{user!}}{{}}" + "{{/if}}" * depth)
    assert "{{user!}}" in text
    assert sum("parse over" in warning for warning in warnings) == 1
    assert expand("{{if 1}}" * depth + "{{user!}}{{}}" + "{{/if}}" * depth) == (text, warnings)


def test_the_legacy_engine_gives_up_a_pass_that_grows_too_large() -> None:
    store = InMemoryVariablesStore({"local": {"a": "{{getglobalvar::b}}" * 2000}, "global": {"b": "x" * 10_000}})
    warnings: list[str] = []
    environment = MacroEnvironment(variables=store)
    text = LegacyMacroEngine().expand("{{getvar::a}}", environment, warn=warnings.append)
    assert text == "{{getglobalvar::b}}" * 2000
    assert len(warnings) == 2


@pytest.mark.parametrize(
    ("limit", "text", "macro"),
    [
        ("MAX_OUTPUT_CHARS", "{{user}}{{user}}", "user"),
        ("MAX_OUTPUT_CHARS", "{{user}}{{.x}}", ""),
        ("MAX_STEPS", "{{user}}{{user}}", "user"),
        ("MAX_STEPS", "{{user}}{{.x}}", ""),
    ],
)
def test_a_limit_names_the_macro_that_hit_it_and_counts_once(
    monkeypatch: pytest.MonkeyPatch, limit: str, text: str, macro: str
) -> None:
    monkeypatch.setattr(run, limit, 3 if limit == "MAX_OUTPUT_CHARS" else 1)
    environment = MacroEnvironment(user_name="Ann", variables=InMemoryVariablesStore({"local": {"x": "abc"}}))
    (diagnostic,) = ENGINE.evaluate(text, environment, Overrides()).diagnostics
    assert (diagnostic.macro, diagnostic.count, diagnostic.position) == (macro, 1, 8)


def test_a_handler_that_fails_is_named_as_it_was_registered() -> None:
    registry = default_registry()
    registry.register("boom", lambda call: call.args[9])
    result = MacroEngine(registry).evaluate("a {{BOOM}}", MacroEnvironment(), Overrides())
    (diagnostic,) = result.diagnostics
    assert (result.text, diagnostic.kind, diagnostic.macro) == ("a {{BOOM}}", "internal_error", "boom")


def test_blocks_that_are_parsed_too_often_are_told_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "MAX_PARSED_CHARS", 10)
    text = "{{if 1}}" * 3 + "{{user!}}{{}}" + "{{/if}}" * 3
    told = ENGINE.evaluate(text, MacroEnvironment(user_name="Ann"), Overrides()).diagnostics
    assert [(each.about, each.macro, each.count) for each in told if each.kind == "limit"] == [("parsing", "", 1)]
