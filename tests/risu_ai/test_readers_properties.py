"""Whatever a file holds, readers make records that a program could have made."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tavernkit.risu_ai import (
    LorebookEntry,
    Preset,
    PromptSettings,
    RegexScript,
    RisuCharacter,
    RisuChat,
    RisuMessage,
    RisuModule,
    RisuPersona,
    Settings,
)

Reader = Callable[[dict[str, Any]], Any]


def ignore(_: str) -> None: ...


READERS: dict[str, Reader] = {
    "character": RisuCharacter.from_json,
    "chat": RisuChat.from_json,
    "entry": LorebookEntry.from_json,
    "message": RisuMessage.from_json,
    "module": RisuModule.from_json,
    "persona": RisuPersona.from_json,
    "preset": lambda data: Preset.from_json(data, warn=ignore),
    "script": RegexScript.from_json,
    "settings": lambda data: Settings.from_json(data, warn=ignore),
    "switches": lambda data: PromptSettings.from_json(data, ignore),
}


class Asked(dict[str, Any]):
    """Remembers what it was asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.keys_asked: set[str] = set()

    def get(self, key: str, default: Any = None) -> Any:
        self.keys_asked.add(key)
        return default


def keys_of(reader: Reader) -> list[str]:
    asked = Asked()
    reader(asked)
    return sorted(asked.keys_asked)


KEYS = {name: keys_of(reader) for name, reader in READERS.items()}
KEYS["settings"] += KEYS["preset"]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS["message"]), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize("name", READERS)
@settings(max_examples=30)
@given(data=st.data())
def test_a_reader_makes_what_would_stand_the_check(name: str, data: st.DataObject) -> None:
    assert KEYS[name]
    record = READERS[name](data.draw(st.dictionaries(st.sampled_from(KEYS[name]), JSON, max_size=8)))
    fields = {each.name: getattr(record, each.name) for each in dataclasses.fields(record)}
    assert type(record)(**fields)
