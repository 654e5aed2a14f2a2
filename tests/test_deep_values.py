"""Values in memory may be nested deeper than any file: they are read, or refused as such a file would be."""

from __future__ import annotations

import inspect
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from tavernkit import cards, risu_ai, silly_tavern
from tavernkit.batching._grid import Grid
from tavernkit.budget._file_tokenizer import load_file_tokenizer
from tavernkit.conversation._stores import SavedChat, SqliteStore
from tavernkit.conversation.errors import StoreError
from tavernkit.errors import ConfigError, LimitExceededError, TavernKitError
from tavernkit.lint._presets import lint_json_text
from tavernkit.risu_ai._memory.supa import _read_records
from tavernkit.risu_ai.errors import MemoryFailedError
from tavernkit.server.config import load_config
from tavernkit.silly_tavern._conversation.json_errors import json_error
from tavernkit.silly_tavern._conversation.lines import _parsed
from tavernkit.silly_tavern._text_completion.guidance import DEFAULT_SEPARATOR, _separator

DEEP = 1_000
KEYS = ("spec", "name", "extensions", "content", "power_user", "header", "key", "world_info_depth")
LISTS = ("entries", "prompts", "swipes", "promptTemplate")


def nested(kind: type) -> object:
    value: object = "bottom"
    for _ in range(DEEP):
        value = {"in": value} if kind is dict else [value]
    return value


def readers() -> Iterator[tuple[str, Any]]:
    for package in (cards, silly_tavern, risu_ai):
        for name in package.__all__:
            for method in ("from_json", "from_card"):
                read = getattr(getattr(package, name), method, None)
                if read is not None:
                    yield f"{package.__name__}.{name}.{method}", read


READERS = dict(readers())


def test_there_are_readers() -> None:
    assert {"tavernkit.cards.Character.from_card", "tavernkit.silly_tavern.Preset.from_json"} <= READERS.keys()
    assert "tavernkit.risu_ai.Preset.from_json" in READERS


@pytest.mark.parametrize("kind", [dict, list])
@pytest.mark.parametrize("name", READERS)
def test_deep_values_are_read_or_refused(name: str, kind: type) -> None:
    read, deep = READERS[name], nested(kind)
    parameters = inspect.signature(read).parameters
    wanted = {"name": "book", "warn": lambda _message: None, "where": ""}
    data = dict.fromkeys(KEYS, deep) | {key: [{"data": deep}, deep] for key in LISTS}
    if name.endswith("from_card"):
        data = {"spec": deep, "spec_version": deep, "data": {**data, "name": "Aria"}}
    with suppress(TavernKitError):
        read(data, **{key: value for key, value in wanted.items() if key in parameters})


def test_a_card_too_deep_to_be_written_is_refused(tmp_path: Path) -> None:
    character = cards.Character.from_card(
        {"spec": "chara_card_v2", "spec_version": "2.0", "data": {"name": "Aria", "extensions": {"x": nested(list)}}}
    )
    with pytest.raises(LimitExceededError, match="nested deeper than 256 levels"):
        cards.save(character, tmp_path / "aria.json")
    assert not list(tmp_path.iterdir())


DEEP_TEXT, DIGITS = "[" * 100_000, "9" * 10_000


@pytest.mark.parametrize("text", [DEEP_TEXT, DIGITS, '{"a": ' + DIGITS + "}"], ids=["deep", "digits", "digits inside"])
def test_texts_that_python_cannot_read_are_told_of_by_whoever_reads_them(text: str, tmp_path: Path) -> None:
    """The parsers of Python raise RecursionError for the one and a plain ValueError for the other."""
    file = tmp_path / "file"
    file.write_text(text)
    assert _separator(text) == DEFAULT_SEPARATOR
    assert _parsed(text) == text
    assert "too" in json_error(text + "]" * text.count("["))  # unclosed brackets are an error of another kind
    assert [found.code for found in lint_json_text(text)] == ["NOT_JSON"]
    if text == DEEP_TEXT:
        with pytest.raises(MemoryFailedError, match="not JSON"):
            _read_records(text)
    else:  # JavaScript reads any number of digits: as infinity
        assert _read_records(text) == []
    with pytest.raises(ConfigError):
        Grid.load(file)
    with pytest.raises(ConfigError):
        load_config(file)
    database = tmp_path / "chats.db"
    store = SqliteStore(database)
    store.save(SavedChat(file=b"{}"))
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("UPDATE conversations SET state = ?", (text,))
        connection.commit()
    with pytest.raises(StoreError, match="cannot be read"):
        store.load()
    assert store.branch("other").load() is None


def test_a_deep_file_is_no_tokenizer(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text(DEEP_TEXT)
    with pytest.raises(ValueError, match="nested too deeply"):
        load_file_tokenizer(tmp_path / "tokenizer.json")
