from __future__ import annotations

from dataclasses import dataclass

import pytest

from tavernkit._values import FrozenObject
from tavernkit.prompt import EntryConditions, PromptEntry


@dataclass
class Person:
    name: str


def entry(conditions: FrozenObject) -> PromptEntry:
    return PromptEntry(id="x", conditions=conditions)


CHAT = EntryConditions(
    chat_scan_messages=("The Dragon sleeps", "hello there", "long ago"),
    turn_count=6,
    character=Person("Aria"),
    character_creator="Bo",
    character_version="1.2",
    character_tags=("Elf", "mage"),
    user=Person("Ann"),
    persona="A curious traveller",
)


@pytest.mark.parametrize(
    ("conditions", "holds"),
    [
        ({"chat": "dragon"}, True),
        ({"chat": ["unicorn", "hello"]}, True),
        ({"chat": "long ago"}, False),
        ({"chat": {"any": ["long ago"], "depth": 3}}, True),
        ({"chat": {"any": ["dragon"], "depth": 0}}, False),
        ({"chat": {"all": ["dragon", "hello"]}}, True),
        ({"chat": {"all": ["dragon", "unicorn"]}}, False),
        ({"chat": {"any": "dragon", "case_sensitive": True}}, False),
        ({"chat": {"any": "drag", "matchWholeWords": True}}, False),
        ({"chat": "/dr.gon/i"}, True),
        ({"chat": {}}, True),
        ({"turns": 6}, True),
        ({"turns": "6"}, True),
        ({"turns": {"min": 3, "max": 5}}, False),
        ({"turns": {"every": 3}}, True),
        ({"turns": {"every": 0}}, False),
        ({"character": " aria "}, True),
        ({"character": {"creator": "bo", "character_version": "1.2", "tags_all": ["elf", "MAGE"]}}, True),
        ({"character": {"tags_any": ["orc"]}}, False),
        ({"character": {"tagsAny": ["orc"]}}, False),
        ({"character": {"characterVersion": "2"}}, False),
        ({"chat": {"any": ["dragon"], "depth": 101}}, True),
        ({"turns": {"equals": "6", "every": 4}}, False),
        ({"turns": "six"}, False),
        ({"any": []}, False),
        ({"all": []}, True),
        ({"character": "Aria", "user": "Bob"}, False),
        ({"user": "ann"}, True),
        ({"user": {"persona": "TRAVELLER"}}, True),
        ({"user": {"name": "Bob"}}, False),
        ({"all": [{"turns": 6}, {"character": "Aria"}]}, True),
        ({"any": [{"turns": 1}, {"character": "Aria"}]}, True),
        ({"all": [{"turns": 6}, {"character": "Bob"}]}, False),
        ({}, True),
    ],
)
def test_conditions(conditions: FrozenObject, holds: bool) -> None:
    assert entry(conditions).active_for(CHAT) is holds


def test_conditions_without_anything_to_check_against_do_not_hold() -> None:
    assert not entry({"turns": 1}).active_for(None)
    assert not entry({"character": "Aria"}).active_for(EntryConditions())
    assert not entry({"user": "Ann"}).active_for(EntryConditions())


def test_triggers_limit_the_kinds_of_generation() -> None:
    assert PromptEntry(id="x").triggered_by("quiet")
    assert PromptEntry(id="x", triggers=("continue",)).triggered_by("continue")
    assert not PromptEntry(id="x", triggers=("continue",)).triggered_by("normal")


def test_an_entry_is_read_from_either_spelling() -> None:
    read = PromptEntry.from_mapping(
        {"key": "jb", "forbidOverrides": "yes", "depth": -3, "position": "in_chat", "injection_trigger": ["1", "x"]}
    )
    assert read is not None
    assert (read.id, read.name, read.forbid_overrides, read.depth, read.position) == ("jb", "jb", True, 3, "in_chat")
    assert list(read.triggers) == ["continue"]
    assert PromptEntry.from_mapping({"name": "nameless"}) is None
