"""The context that every RisuAI engine takes."""

from __future__ import annotations

import dataclasses

import pytest

from tavernkit.risu_ai._cbs.context import CBSContext, CBSContextChanges, default_variables
from tavernkit.risu_ai._objects import RisuCharacter, RisuChat, RisuMessage, RisuSettings


def test_a_name_stands_for_a_character() -> None:
    context = CBSContext(char="Bel", user="Ann")
    assert context.character == RisuCharacter(name="Bel")
    assert (context.character_name, context.user_name) == ("Bel", "Ann")


def test_a_context_reads_and_writes_variables() -> None:
    context = CBSContext(char="Bel")
    context.set_var("a", "1")
    assert context.has_var("a")
    assert context.get_var("a") == "1"
    assert context.get_var("b") is None


def test_a_context_cannot_be_changed_but_replaced() -> None:
    context = CBSContext(char="Bel")
    with pytest.raises(dataclasses.FrozenInstanceError):
        context.chat_index = 3  # pyright: ignore[reportAttributeAccessIssue]
    derived = context.replace(char="Mia", chat_index=3)
    assert (derived.character_name, derived.chat_index, context.chat_index) == ("Mia", 3, -1)
    assert derived.variables is context.variables
    assert derived.random is context.random


def test_everything_a_context_has_can_be_replaced() -> None:
    inputs = {field.name for field in dataclasses.fields(CBSContext) if field.init}
    assert set(CBSContextChanges.__annotations__) == inputs


def test_contexts_do_not_share_their_defaults() -> None:
    first, second = CBSContext(char="a"), CBSContext(char="b")
    first.set_var("x", "1")
    assert not second.has_var("x")


def test_names_for_counting_tokens_are_always_the_same() -> None:
    context = CBSContext(char="Bel", user="Ann", consistent_names=True)
    assert (context.character_name, context.user_name) == ("botname", "username")


def test_stored_objects_are_read_tolerantly() -> None:
    character = RisuCharacter.from_json(
        {
            "name": "Bel",
            "desc": 5,
            "additionalAssets": [["a", "p"], ["b"], "c"],
            "globalLore": [{"key": "k"}, 3],
            "x": 1,
        }
    )
    assert character.description is None
    assert [asset.name for asset in character.assets or ()] == ["a"]
    assert len(character.lore or ()) == 1
    assert character.raw["x"] == 1
    settings = RisuSettings.from_json({"moduleIntergration": " a, ,b", "maxContext": True})
    assert settings.integrated_modules == ("a", "b")
    assert settings.max_context is None


def test_a_message_keeps_the_order_and_the_keys_it_was_stored_with() -> None:
    stored = {"data": "hi", "role": "user", "chatId": "7", "time": 5}
    assert list(RisuMessage.from_json(stored).to_json().items()) == list(stored.items())
    assert RisuMessage(role="char", data="x", saying="id").to_json() == {"role": "char", "data": "x", "saying": "id"}


@pytest.mark.parametrize(
    ("index", "greeting"), [(-1, "first"), (0, "second"), (1, None), (0.5, None), (None, None), (float("nan"), None)]
)
def test_the_chat_chooses_its_greeting(index: float | None, greeting: str | None) -> None:
    character = RisuCharacter(name="Bel", first_message="first", alternate_greetings=("second",))
    assert CBSContext(char=character, chat=RisuChat(greeting_index=index)).greeting == greeting


def test_default_variables_are_lines_of_key_and_value() -> None:
    assert default_variables("a=1\na=2\nb=x=y\n=3\nc=\n d =4") == {"a": "1", "b": "x", " d ": "4"}
