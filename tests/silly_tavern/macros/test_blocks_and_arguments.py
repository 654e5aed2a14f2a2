"""Macros that have arguments and a block at once, each of them plain or with macros inside."""

from __future__ import annotations

import pytest

from tavernkit.silly_tavern.macros import Argument, MacroEngine, MacroEnvironment, default_registry

REGISTRY = default_registry()
REGISTRY.register("wrap", lambda call: f"<{call.args[0]}|{call.args[1]}>", args=[Argument("first"), Argument("second")])
ENGINE = MacroEngine(REGISTRY)


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("{{wrap::{{user}}}}plain{{/wrap}}", "<Ann|plain>"),
        ("{{wrap::x}}plain{{/wrap}}", "<x|plain>"),
        ("{{wrap::x}}{{char}}{{/wrap}}", "<x|Bel>"),
        ("{{wrap::{{user}}}}{{char}}{{/wrap}}", "<Ann|Bel>"),
        ("{{wrap::{{user}}}}{{/wrap}}", "<Ann|>"),
        ("{{wrap::{{user}}}}\n  a\n  b\n{{/wrap}}", "<Ann|a\nb>"),
        ("{{#wrap::{{user}}}} a {{/wrap}}", "<Ann| a >"),
    ],
)
def test_a_block_is_the_last_argument_whatever_the_others_are(text: str, expanded: str) -> None:
    assert ENGINE.expand(text, MacroEnvironment(user_name="Ann", character_name="Bel")) == expanded
