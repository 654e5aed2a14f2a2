"""Books with an index: read entry by entry, and in everything equal to the same books without one."""

from __future__ import annotations

import copy
import hashlib
import json
import pickle
import tempfile
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tavernkit as tk
from tavernkit.conversation._books import indexed_book
from tavernkit.errors import ConfigError
from tavernkit.silly_tavern._world_info import WorldBook, book_index, key_table
from tavernkit.silly_tavern.errors import LoreParseError
from tests.silly_tavern.world_info import properties as p
from tests.silly_tavern.world_info.scanning import scan

WORLD: dict[str, Any] = {
    "name": "Shown \u2028 \U0001f409",
    "entries": {
        "10": {"uid": 10, "key": ["Größe", "iron gate", "/dra+gon/i"], "content": "Zehn", "order": 5},
        "x": {"uid": "x", "key": ["{{user}}", "\ud83d"], "content": "@@activate\nX", "world": "Other", "order": None},
        "2": {"uid": 2, "key": ["gate"], "keysecondary": ["iron"], "content": "Zwei", "caseSensitive": True},
        "bad": {"uid": 3, "key": ["a", 1]},
        "3": {"uid": 4, "key": ["lamp"], "content": "Drei", "sticky": 2, "scanDepth": 7, "order": 10**400},
        "4": {"uid": 5, "key": ["wick"], "content": "Vier", "delayUntilRecursion": True, "constant": 1},
        "5": None,
    },
    "unknown": [True, {"entries": []}],
}


def write(folder: Path, world: Any = WORLD, name: str = "lore") -> Path:
    path = folder / f"{name}.json"
    path.write_bytes(world if isinstance(world, bytes) else json.dumps(world, indent=1).encode())
    return path


def unexpected(message: str) -> None:
    raise AssertionError(message)


def read_both(world: Any, name: str = "lore") -> tuple[WorldBook, WorldBook]:
    """Read a book without an index and with one."""
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder), world, name)
        plain = WorldBook.load(path)
        plain.index()
        indexed = WorldBook.load(path, warn=unexpected)
    assert type(indexed) is not WorldBook
    return plain, indexed


def facts(book: WorldBook) -> str:
    """Everything that a scan knows of a book, as a text (some numbers are not equal to themselves)."""
    table = book.table
    return repr(
        [
            *(*map(float, table.orders), [*table.constant], [*table.timed], [*table.delayed], float(table.deepest)),
            *([*table.loose], [*table.problems], [*table.entries.identities()]),
            [table.entries[number] for number in range(len(table.entries))],
            {kind: ([*texts], [*owners]) for kind, (texts, owners) in table.keys.items() if texts},
        ]
    )


def check_equal(world: Any) -> None:
    plain, indexed = read_both(world)
    assert (len(indexed), repr(indexed)) == (len(plain), repr(plain))
    assert facts(indexed) == facts(plain)
    assert [*indexed.raw_entries()] == [*plain.raw_entries()]
    assert indexed.dumps() == plain.dumps()
    assert indexed.to_character_book() == plain.to_character_book()


@pytest.mark.parametrize(
    "world",
    [
        WORLD,
        json.dumps(WORLD, ensure_ascii=True).encode(),
        '{ "entries" : {"0":{"key":["ä"]}, "1" : {"key":["b"]} ,"0": {"key":["ö"],"uid":7}}\r\n,\t"x":"ü" } '.encode(),
        b'{"entries":{}}',
        b'{"entries":[],"entries":{"1":{}},"a":{}}',
        b'{"entries":{"0":null}}',
    ],
)
def test_an_indexed_book_is_equal_to_the_plain_one(world: Any) -> None:
    check_equal(world)


@settings(max_examples=40, deadline=None)
@given(st.dictionaries(st.text(max_size=2), p.odd_entries | p.json_values, max_size=4), p.json_values)
def test_any_entries_can_be_indexed(entries: Any, more: Any) -> None:
    check_equal({"entries": entries, "more": more})


@settings(max_examples=40, deadline=None)
@given(p.scenarios)
def test_scans_are_equal(scenario: dict[str, Any]) -> None:
    with patch.object(key_table, "MANY_KEYS", 0):
        p.check_scan_equals_the_straightforward_one(scenario, lambda name, world: read_both(world, name)[1])


def test_only_entries_that_are_needed_are_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    world = {"entries": {str(n): {"uid": n, "key": [f"word{n}"], "content": f"{n}."} for n in range(50)}}
    _, book = read_both(world)
    parsed: list[object] = []
    loads = json.loads
    monkeypatch.setattr(book_index.json, "loads", lambda text: (parsed.append(text), loads(text))[1])
    assert [each.content for each in scan(book, "word7 and word9").activated] == ["7.", "9."]
    assert len(parsed) == 2
    assert len({id(raw) for _, raw in book.raw_entries()} & {id(entry.raw) for entry in book.entries}) == 50


def test_copies_are_plain_books() -> None:
    _, book = read_both(WORLD)
    for twin in (pickle.loads(pickle.dumps(book)), copy.deepcopy(book)):
        assert (twin.name, twin.to_json()) == (book.name, WORLD)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda index: b"", "not an index of this version"),
        (lambda index: index.replace(b"index 1", b"index 9", 1), "not an index of this version"),
        (lambda index: index[:-1], "damaged"),
        (lambda index: index[:200] + b"\0" + index[201:], "damaged"),
        (lambda index: forge(index.replace(tk.__version__.encode(), b"9.9.9", 1)), "another version"),
    ],
)
def test_a_bad_index_is_reported_and_not_used(tmp_path: Path, change: Any, why: str) -> None:
    path = write(tmp_path)
    index = WorldBook.load(path).index()
    index.write_bytes(change(index.read_bytes()))
    warnings: list[str] = []
    book = WorldBook.load(path, warn=warnings.append)
    assert len(warnings) == 1
    assert why in warnings[0]
    assert book.to_json() == WORLD
    with pytest.raises(LoreParseError, match=why):
        WorldBook.load(path, strict=True)


def test_an_index_holds_for_the_bytes_it_was_made_of(tmp_path: Path) -> None:
    path = write(tmp_path)
    book = WorldBook.load(path)
    index = book.index()
    path.write_bytes(path.read_bytes() + b" ")
    warnings: list[str] = []
    assert WorldBook.load(path, warn=warnings.append).to_json() == WORLD
    assert "the book has changed" in warnings[0]
    assert indexed_book(path, warnings.append) is None
    book.index()  # the same book in other bytes
    assert indexed_book(path, unexpected) is not None
    write(tmp_path, {"entries": {}})
    with pytest.raises(ConfigError, match="load it again"):
        book.index(index)


def test_an_index_may_lie_elsewhere(tmp_path: Path) -> None:
    path = write(tmp_path)
    index = WorldBook.load(path).index(tmp_path / "other")
    assert type(WorldBook.load(path)) is WorldBook
    for source in (path, path.read_bytes()):
        assert type(WorldBook.load(source, index=index, warn=unexpected)) is not WorldBook
    assert sorted(each.name for each in tmp_path.iterdir()) == ["lore.json", "other"]


@pytest.mark.parametrize("world", [{"entries": []}, {"entries": {}, "lorebookVersion": 5}, {"entries": 1}])
def test_files_of_other_programs_have_no_index(tmp_path: Path, world: Any) -> None:
    with pytest.raises(ConfigError, match="SillyTavern's own"):
        WorldBook.load(write(tmp_path, world)).index()


def test_a_book_that_is_from_no_file_has_no_index() -> None:
    with pytest.raises(ConfigError, match="loaded from a file"):
        WorldBook("b", {"entries": {}}).index()


def forge(index: bytes) -> bytes:
    """Give an index the checksum that it should have."""
    start = len(book_index.MAGIC) + book_index.CHECKSUM_BYTES
    return book_index.MAGIC + hashlib.sha256(index[start:]).digest() + index[start:]


def index_of(world: Any) -> tuple[bytes, bytes]:
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder), world)
        return path.read_bytes(), WorldBook.load(path).index().read_bytes()


CONTENT, INDEX = index_of(WORLD)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_no_index_whatever_stops_a_scan(data: st.DataObject) -> None:
    """Not even one that was forged: its checksum is right, and its numbers are not."""
    index = bytearray(INDEX)
    start = len(book_index.MAGIC) + book_index.CHECKSUM_BYTES
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(start, len(index) - 1))
        size = data.draw(st.integers(0, 9))
        index[at : at + size] = data.draw(st.binary(max_size=9) | st.sampled_from([b"0", b"-1", b"99", b"null", b"[]"]))
    warnings: list[str] = []
    book = WorldBook.load(CONTENT, index=forge(bytes(index)), warn=warnings.append)
    p.check_explanations(scan(book, "iron gate", "dragon lamp wick Größe", warn=warnings.append))
    assert book.to_json() == WORLD
