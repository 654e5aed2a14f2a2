"""Macros that have arguments and a block at once, plain or with macros inside, and many texts of a card in one text."""

from __future__ import annotations

import pytest

from tavernkit.cards import Character
from tavernkit.silly_tavern._macros import MacroArgument, MacroEngine, MacroEnvironment, default_registry

REGISTRY = default_registry()
REGISTRY.register(
    "wrap", lambda call: f"<{call.args[0]}|{call.args[1]}>", args=[MacroArgument("first"), MacroArgument("second")]
)
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


def test_texts_of_the_card_beside_each_other_are_no_deeper_than_one() -> None:
    card = Character(name="Bel", alternate_greetings=tuple(f"{number} for {{{{user}}}}" for number in range(40)))
    environment = MacroEnvironment(user_name="Ann", character_name="Bel", character=card)
    text = ";".join(f"{{{{charFirstMessage::{number}}}}}" for number in range(1, 41))
    assert ENGINE.expand(text, environment) == ";".join(f"{number} for Ann" for number in range(40))
