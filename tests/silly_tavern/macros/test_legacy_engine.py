"""What callers of the legacy engine rely on."""

from __future__ import annotations

import pytest

from tavernkit.cards import Character
from tavernkit.errors import MacroError
from tavernkit.silly_tavern._group import Group, GroupChat
from tavernkit.silly_tavern._macros import (
    LegacyMacroEngine,
    MacroArgument,
    MacroDefinition,
    MacroEnvironment,
)
from tavernkit.silly_tavern.errors import UnconsumedMacroError, UnknownMacroError

ENGINE = LegacyMacroEngine()
ANN = MacroEnvironment(user_name="Ann", character_name="Bel")


def test_macros_run_by_kind_and_not_by_position() -> None:
    environment = MacroEnvironment()
    assert ENGINE.expand("[{{getvar::k}}]{{setvar::k::v}}", environment) == "[v]"


def test_values_are_expanded_by_later_passes() -> None:
    environment = ANN.replace(
        character=Character(name="", description="A {{personality}} {{charPrompt}}", personality="calm")
    )
    warnings: list[str] = []
    assert ENGINE.expand("{{description}}", environment, warn=warnings.append) == "A calm {{charPrompt}}"
    assert warnings == [
        "unknown macro {{charPrompt}} stays as text",
    ]


@pytest.mark.parametrize("text", ["{{broken", "{{user}} and {{char", "{{a\nb}}"])
def test_braces_that_are_no_macro_are_reported(text: str) -> None:
    warnings: list[str] = []
    expanded = ENGINE.expand(text, ANN, warn=warnings.append)
    left = expanded[expanded.index("{{") :].partition("\n")[0]
    assert warnings == [f"macro braces stay as text: {left!r}"]
    with pytest.raises(UnconsumedMacroError) as caught:
        ENGINE.expand(text, ANN, strict=True)
    assert caught.value.remaining_macros == (left,)


def test_unknown_macros_are_reported_once_each() -> None:
    warnings: list[str] = []
    text = "{{nosuch::1}} {{user}} {{nosuch}} {{name}}"
    assert ENGINE.expand(text, ANN, warn=warnings.append, leave=("name",)) == "{{nosuch::1}} Ann {{nosuch}} {{name}}"
    assert warnings == ["unknown macro {{nosuch}} stays as text"]
    with pytest.raises(UnknownMacroError):
        ENGINE.expand(text, ANN, strict=True)


def test_a_value_that_fails_gives_up_its_whole_pass() -> None:
    def fail(_call: object) -> str:
        raise RuntimeError("no")

    warnings: list[str] = []
    text = "{{bad}} {{user}} {{bad}}"
    assert ENGINE.expand(text, ANN, macros={"bad": fail}, warn=warnings.append) == "{{bad}} Ann {{bad}}"
    assert warnings[0] == "'{{bad}} Ann {{bad}}' failed, and all of its kind stay as text: no"
    with pytest.raises(MacroError):
        ENGINE.expand(text, ANN, macros={"bad": fail}, strict=True)


def test_macros_of_a_call_and_of_extensions() -> None:
    engine = LegacyMacroEngine({"ext": "registered", "both": "extension", "number": 1.50})
    macros = {
        "both": "call",
        "my key": lambda call: f"{call.name} of {call.environment.user_name}",
        "defined": MacroDefinition(
            name="defined", args=[MacroArgument("x", optional=True)], handler=lambda _call: None
        ),
    }
    text = "{{EXT}} {{both}} {{number}} {{my key}} [{{defined}}]"
    assert engine.expand(text, ANN, macros=macros) == "registered extension 1.5 my key of Ann []"


def test_group_names() -> None:
    cards = {name: Character(name=name) for name in ("Ada", "Bel", "Cy")}
    environment = ANN.replace(group=GroupChat.of(Group(members=tuple(cards), disabled_members=("Bel",)), cards))
    text = "{{group}}|{{groupNotMuted}}|{{notChar}}"
    assert ENGINE.expand(text, environment) == "Ada, Bel, Cy|Ada, Cy|Ada, Cy, Ann"


def test_card_texts_are_expanded_even_for_plain_text() -> None:
    environment = MacroEnvironment(character=Character(name="", description="{{incvar::n}}", personality="plain"))
    assert ENGINE.expand("plain", environment) == "plain"
    assert environment.get_var("n") == 1
    assert ENGINE.expand("plain", environment, card=False) == "plain"
    assert environment.get_var("n") == 1


def test_card_texts_are_expanded_in_the_order_of_a_generation_greetings_last() -> None:
    def noting(mark: str) -> str:
        return "{{addvar::seen::" + mark + "}}"

    card = Character(
        name="",
        system_prompt=noting("s"),
        mes_example=noting("e"),
        description=noting("d"),
        personality=noting("p"),
        scenario=noting("c"),
        post_history_instructions=noting("j"),
        extensions={"depth_prompt": {"prompt": noting("n")}},
        creator_notes=noting("o"),
        first_mes=noting("f"),
        alternate_greetings=(noting("a"), noting("b")),
    )
    environment = MacroEnvironment(character=card, persona=noting("u"))
    ENGINE.expand("{{scenario}}", environment)
    assert environment.get_var("seen") == "sedpucjnofab"


def test_nothing_gives_nothing() -> None:
    assert ENGINE.expand("", ANN) == ""
