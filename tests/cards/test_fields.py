"""Card fields of the wrong type: what is made of them, and what is said."""

from __future__ import annotations

from typing import Any

import pytest

from tavernkit.cards import AssetEntry, Character, CharacterBook
from tavernkit.errors import LoreParseError, WarningLog


def read(**data: object) -> tuple[Character, list[str]]:
    log = WarningLog()
    source: dict[str, Any] = {"spec": "chara_card_v3", "spec_version": "3.0", "data": {"name": "Vesna", **data}}
    return Character.from_card(source, warn=log), list(log.messages)


def entry_field(name: str, value: object) -> tuple[object, int]:
    character, warnings = read(character_book={"entries": [{"keys": ["k"], "content": "x", name: value}]})
    assert character.character_book is not None
    return getattr(character.character_book.entries[0], name), len(warnings)


@pytest.mark.parametrize(
    ("value", "found", "warnings"),
    [
        (None, None, 0),
        (True, True, 0),
        (0, False, 1),
        (2.5, True, 1),
        (" True", True, 1),
        ("false", False, 1),
        ("yes", None, 1),
        ([True], None, 1),
    ],
)
def test_a_switch_may_be_written_as_a_number_or_a_word(value: object, found: object, warnings: int) -> None:
    assert entry_field("constant", value) == (found, warnings)


@pytest.mark.parametrize(
    ("value", "found", "warnings"),
    [
        (None, None, 0),
        (7, 7, 0),
        (" 12 ", 12, 1),
        ("1.5", 1.5, 1),
        ("nan", None, 1),
        ("1e999", None, 1),
        ("9" * 41, None, 1),
        ("first", None, 1),
        (True, None, 1),
        ({}, None, 1),
    ],
)
def test_a_number_may_be_written_as_text(value: object, found: object, warnings: int) -> None:
    assert entry_field("priority", value) == (found, warnings)


@pytest.mark.parametrize(
    ("value", "found"), [(1.9, 1), ("12", 12), (10**400, 10**400), (float("inf"), None), (float("nan"), None)]
)
def test_a_date_is_whole_seconds_or_nothing(value: object, found: int | None) -> None:
    assert read(creation_date=value)[0].creation_date == found


def test_one_text_is_a_list_of_one() -> None:
    character, warnings = read(alternate_greetings="Hello", group_only_greetings="")
    assert (character.alternate_greetings, character.group_only_greetings) == (("Hello",), ())
    assert len(warnings) == 2


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"assets": {}}, "/data/assets is an object where a list is expected"),
        ({"assets": [1]}, "/data/assets/0 is a number where an asset is expected"),
        ({"character_book": "lore"}, "/data/character_book is a string where a character book is expected"),
        ({"character_book": {"entries": 1}}, "/data/character_book/entries is a number where a list is expected"),
        ({"character_book": {"entries": [None]}}, "/data/character_book/entries/0 is null where an entry is expected"),
    ],
)
def test_what_is_left_out_is_named(data: dict[str, object], words: str) -> None:
    character, warnings = read(**data)
    assert any(words in warning and "left out" in warning for warning in warnings)
    assert not character.assets
    assert character.character_book is None or not character.character_book.entries


def test_a_book_must_be_an_object() -> None:
    with pytest.raises(LoreParseError, match="not a list"):
        CharacterBook.from_json([])  # pyright: ignore[reportArgumentType]


def test_changing_one_asset_keeps_what_others_put_into_the_list() -> None:
    listed = [{"type": "icon", "uri": "ccdefault:", "name": "main", "ext": "png", "x_note": 1}, {"type": "emotion"}]
    character, _ = read(assets=listed)
    assert character.assets is not None
    changed = character.replace(assets=(character.assets[0].replace(name="other"), *character.assets[1:]))
    written: Any = changed.to_card()
    assert written["data"]["assets"] == [listed[0] | {"name": "other"}, listed[1]]


def test_a_new_asset_is_written_whole() -> None:
    asset = AssetEntry(type="icon", uri="ccdefault:", name="main", ext="png")
    assert asset.to_json() == {"type": "icon", "uri": "ccdefault:", "name": "main", "ext": "png"}


def test_assets_that_are_taken_away_are_gone() -> None:
    character, _ = read(assets=[{"type": "icon", "uri": "ccdefault:", "name": "main", "ext": "png"}])
    written: Any = character.replace(assets=()).to_card()
    assert written["data"]["assets"] == []
