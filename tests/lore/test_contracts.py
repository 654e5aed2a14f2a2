"""Lore as every format has it: what is read, what is refused, what is written."""

from __future__ import annotations

import json

import pytest

from tavernkit.errors import LoreParseError, WarningLog
from tavernkit.lore import LoreBook, LoreEntry

FULL = {
    "keys": ["lamp", "light"],
    "content": "A lamp.",
    "id": "7",
    "name": "Lamp",
    "comment": "the lamp",
    "enabled": False,
    "insertion_order": 5,
    "priority": 9,
    "use_regex": True,
    "case_sensitive": False,
    "constant": True,
    "selective": True,
    "secondary_keys": ["oil"],
    "position": "before_char",
    "extensions": {"weight": [1, 2]},
}


def test_an_entry_is_written_as_it_was_read() -> None:
    assert json.loads(json.dumps(LoreEntry.from_mapping(FULL).to_dict())) == FULL


def test_what_an_entry_does_not_say_has_its_default_and_is_not_written() -> None:
    entry = LoreEntry.from_mapping({"content": "x"})
    assert entry == LoreEntry(keys=(), content="x")
    assert entry.to_dict() == {
        "keys": [],
        "content": "x",
        "enabled": True,
        "insertion_order": 100,
        "use_regex": False,
        "secondary_keys": [],
        "extensions": {},
    }


def test_an_id_may_be_a_number() -> None:
    assert LoreEntry.from_mapping({"id": 0}).id == "0"


@pytest.mark.parametrize(
    ("given", "order", "priority"),
    [
        (3.9, 3, 3),
        ("12", 12, 12),
        (0, 0, 0),
        ("first", 100, None),
        (float("inf"), 100, None),
        (float("nan"), 100, None),
        (True, 100, None),
        ([1], 100, None),
    ],
)
def test_numbers_are_made_whole_and_what_is_none_is_left_to_the_default(
    given: object, order: int, priority: int | None
) -> None:
    entry = LoreEntry.from_mapping({"insertion_order": given, "priority": given})
    assert (entry.insertion_order, entry.priority) == (order, priority)


def test_secondary_keys_count_only_when_there_are_some() -> None:
    assert LoreEntry.from_mapping({"selective": True, "secondary_keys": ["oil"]}).is_selective
    assert not LoreEntry.from_mapping({"selective": True}).is_selective
    assert not LoreEntry.from_mapping({"selective": False, "secondary_keys": ["oil"]}).is_selective


@pytest.mark.parametrize("wrong", [{"keys": "lamp"}, {"keys": ["lamp", 1]}, {"secondary_keys": 3}, {"content": None}])
def test_an_entry_of_the_wrong_types_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(LoreParseError, match=next(iter(wrong))):
        LoreEntry.from_mapping(wrong)


def test_a_book_is_written_as_it_was_read() -> None:
    book = {
        "name": "World",
        "description": "of lamps",
        "scan_depth": 4,
        "token_budget": 500,
        "recursive_scanning": True,
        "extensions": {"a": 1},
        "entries": [FULL],
    }
    assert json.loads(json.dumps(LoreBook.from_mapping(book).to_dict())) == book


def test_a_book_lists_its_entries_by_what_they_are() -> None:
    book = LoreBook.from_mapping({"entries": [{"name": "on"}, {"name": "off", "enabled": False, "constant": True}]})
    assert [entry.name for entry in book.enabled_entries] == ["on"]
    assert [entry.name for entry in book.constant_entries] == ["off"]
    assert not book.is_empty


@pytest.mark.parametrize("entries", [None, {}, "text", []])
def test_a_book_without_a_list_of_entries_is_empty(entries: object) -> None:
    assert LoreBook.from_mapping({"entries": entries}).is_empty


def test_an_entry_that_cannot_be_read_is_named_and_left_out() -> None:
    log = WarningLog()
    book = LoreBook.from_mapping({"entries": [{"name": "good"}, 3, {"keys": "bad"}]}, warn=log)
    assert [entry.name for entry in book.entries] == ["good"]
    assert [message.split(":")[0] for message in log.messages] == [
        "lore entry 1 is left out",
        "lore entry 2 is left out",
    ]


def test_without_anyone_to_tell_a_bad_entry_is_an_error() -> None:
    with pytest.raises(LoreParseError, match="must be an object, not int"):
        LoreBook.from_mapping({"entries": [3]})
