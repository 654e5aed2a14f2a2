"""Inputs of builds that are of a wrong kind: programmers are told at once what to pass."""

from __future__ import annotations

from typing import Any

import pytest

from tavernkit import Character, ConfigError, risu_ai, silly_tavern
from tavernkit.cards import Bundle

CARD = Character.from_card({"spec": "chara_card_v2", "spec_version": "2.0", "data": {"name": "Aria"}})


@pytest.mark.parametrize("platform", [silly_tavern, risu_ai])
@pytest.mark.parametrize(
    ("inputs", "told"),
    [
        ({"user": "You"}, "user must be a User, not str: pass User\\(name=...\\)"),
        ({"character": "Aria"}, "character must be a Character"),
        ({"character": 5}, "character must be a Character"),
        ({"settings": {}}, "settings must be a Settings, not dict"),
        ({"preset": "x"}, "preset must be a Preset, not str"),
    ],
)
def test_both_platforms_say_what_to_pass(platform: Any, inputs: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        platform.build(**{"character": CARD, **inputs})


@pytest.mark.parametrize(
    ("inputs", "told"),
    [
        ({"group": "x"}, "group must be a Group, not str"),
        ({"books": "x"}, "books must be a list of WorldBook objects, not str"),
        ({"chat_books": [5]}, "each of chat_books must be a WorldBook, not int"),
        ({"chat_metadata": 5}, "chat_metadata must be a ChatMetadata, not int"),
        ({"character": Bundle()}, "holds none"),
    ],
)
def test_silly_tavern_says_what_to_pass(inputs: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        silly_tavern.build(**{"character": CARD, **inputs})


def test_a_loaded_file_is_a_character_for_both() -> None:
    for platform in (silly_tavern, risu_ai):
        inputs: dict[str, Any] = {"message": "Hi"} if platform is silly_tavern else {}
        assert platform.build(character=Bundle(card=CARD), **inputs).to_messages() == (
            platform.build(character=CARD, **inputs).to_messages()
        )
