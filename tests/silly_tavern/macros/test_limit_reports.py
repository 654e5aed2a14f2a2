"""What a diagnostic says of the limit that was hit, and of a handler that failed."""

from __future__ import annotations

import pytest

from tavernkit.silly_tavern._macros import MacroEngine, MacroEnvironment, Overrides, default_registry, run
from tavernkit.stores import InMemoryVariablesStore

ENGINE = MacroEngine()


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
