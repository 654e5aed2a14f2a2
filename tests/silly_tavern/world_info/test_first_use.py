"""What the first scan of a large book does not do: make objects of entries, or look at what few books have."""

from __future__ import annotations

import gc
import json
from pathlib import Path

import pytest

from tavernkit._text.js_values import convert
from tavernkit.lore._key_index import KeyIndex
from tavernkit.silly_tavern import WorldBook
from tavernkit.silly_tavern._world_info import (
    ScanInput,
    SelectedBooks,
    WorldInfoEngine,
    WorldInfoSettings,
    book_table,
    engine,
    key_table,
)
from tavernkit.silly_tavern._world_info import book as book_module
from tavernkit.silly_tavern._world_info.entry import Entry

ENTRIES = 500


def entry(number: int) -> dict[str, object]:
    return {"uid": number, "key": [f"word{number}", f"two words{number}"], "content": f"{number}.", "sticky": 0}


def scan(book: WorldBook) -> list[str]:
    given = ScanInput(
        messages=["Ann: word7 and two words9"],
        books=SelectedBooks(global_=(book,)),
        settings=WorldInfoSettings(),
        max_context=8000,
        count_tokens=len,
    )
    return [each.entry.content for each in WorldInfoEngine().scan(given).activated]


def test_only_what_matched_becomes_an_object(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "big.json"
    path.write_text(json.dumps({"entries": {str(number): entry(number) for number in range(ENTRIES)}}))
    made: list[object] = []
    asked: list[object] = []
    monkeypatch.setattr(engine, "Entry", lambda raw, world: (made.append(raw), Entry(raw, world))[1])
    monkeypatch.setattr(book_table, "truthy", lambda value: (asked.append(value), bool(value))[1])
    monkeypatch.setattr(convert, "is_index_key", pytest.fail)
    assert sorted(scan(WorldBook.load(path))) == ["7.", "9."]
    assert len(made) <= 4
    assert not asked  # what is false, zero or null is not asked about


def test_only_keys_that_can_be_in_the_texts_are_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_table, "MANY_KEYS", 100)
    compiled: list[int] = []
    monkeypatch.setattr(
        key_table, "KeyIndex", lambda keys, **more: (compiled.append(len(keys)), KeyIndex(keys, **more))[1]
    )
    book = WorldBook.from_json({"entries": {str(number): entry(number) for number in range(ENTRIES)}}, name="b")
    used, made = WorldInfoEngine(), SelectedBooks(global_=(book,))
    for turn in range(2 * key_table.MAX_CHOICES):
        given = ScanInput(messages=[f"word{turn} {turn}"], books=made, max_context=8000, count_tokens=len)
        assert [each.entry.uid for each in used.scan(given).activated] == [turn]
    assert max(compiled[:-1]) < 5 * key_table.MAX_CHOICES
    assert compiled[-1] == 2 * ENTRIES  # what is used again and again is compiled as a whole
    before = len(compiled)
    WorldInfoEngine().compile(made, WorldInfoSettings())
    assert 2 * ENTRIES in compiled[before:]


def test_the_collector_is_as_it_was_after_a_large_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(book_module, "LARGE_FILE", 10)
    monkeypatch.setattr(book_module, "MANY_ENTRIES", 1)
    for text in ('{"entries": {"0": {"key": ["a"]}}}', "not JSON at all"):
        assert WorldBook.loads(text, name="b", warn=lambda message: None).table
        assert gc.isenabled()
        gc.disable()
        try:
            assert WorldBook.loads(text, name="b", warn=lambda message: None).table
            assert not gc.isenabled()
        finally:
            gc.enable()


@pytest.mark.parametrize("value", [[], {}, "x", 2, True, "0"], ids=repr)
def test_values_that_javascript_takes_for_true_count(value: object) -> None:
    found: list[list[str]] = []
    for name in ("constant", "sticky", "cooldown", "delayUntilRecursion"):
        book = WorldBook.from_json({"entries": {"0": {**entry(0), name: value}}}, name="b")
        compiled = engine.CompiledBooks(SelectedBooks(global_=(book,)), 0)
        found.append([str(each) for each in (compiled.unconditional, compiled.timed, compiled.levels) if each])
    assert [bool(each) for each in found] == [True] * 4


@pytest.mark.parametrize(
    "keys", [["0", "1", "2"], ["2", "0", "1"], ["0", "1", "x"], ["0", "1", "01"], ["0", "2", "a", "1"]]
)
def test_keys_are_listed_as_javascript_lists_them(keys: list[str]) -> None:
    indexes = sorted((key for key in keys if convert.is_index_key(key)), key=int)
    assert convert.own_keys(keys) == indexes + [key for key in keys if not convert.is_index_key(key)]
