import base64
import json
from pathlib import Path

import pytest

from tavernkit._values import JsonObject
from tavernkit.cards._png import placeholder_png, text_chunk
from tavernkit.errors import LoreParseError as CoreLoreParseError
from tavernkit.silly_tavern._world_info import WorldBook, duplicate_entry, import_world
from tavernkit.silly_tavern.errors import LoreParseError
from tests.silly_tavern.world_info.scanning import make_book, scan

FILE = {
    "entries": {"10": {"uid": 10, "key": ["a"], "mystery": {"x": [1, None]}}, "x": {"uid": 3}, "2": {"uid": 2}},
    "name": "Shown",
    "extensions": {"vendor": 1},
    "unknown": [True],
}


def test_file_is_read_and_written_without_loss(tmp_path: Path) -> None:
    path = tmp_path / "Eldoria.v2.json"
    path.write_text(json.dumps(FILE), encoding="utf-8")
    book = WorldBook.load(path)
    assert book.name == "Eldoria.v2"
    assert json.loads(book.dumps()) == FILE
    assert list(json.loads(book.dumps())["entries"]) == ["10", "x", "2"]
    assert book.to_json() == FILE
    assert book.entries[1].to_json() == FILE["entries"]["10"]


def test_entries_are_listed_as_javascript_lists_them() -> None:
    book = WorldBook.from_json(FILE, name="B")
    assert [entry.uid for entry in book.entries] == [2, 10, 3]
    assert len(book) == 3
    assert repr(book) == "WorldBook('B', 3 entries)"


def test_changing_the_source_does_not_change_the_book() -> None:
    source = {"entries": {"0": {"uid": 0, "key": ["a"]}}}
    book = WorldBook.from_json(source, name="B")
    source["entries"]["0"]["key"].append("b")
    assert book.entries[0].keys == ("a",)


@pytest.mark.parametrize(
    "text",
    ["{not json", "[]", "null", '{"foo": 1}', b"\xff\xfe", "[" * 100_000],
    ids=["broken", "list", "null", "no entries", "no UTF-8", "too deep"],
)
def test_unreadable_file_is_an_empty_book_and_a_warning(text: str | bytes) -> None:
    warnings: list[str] = []
    book = WorldBook.loads(text, name="Broken", warn=warnings.append)
    assert book.entries == ()
    assert len(warnings) == 1
    assert "'Broken'" in warnings[0]
    with pytest.raises(LoreParseError) as raised:
        WorldBook.loads(text, name="Broken", strict=True)
    assert isinstance(raised.value, CoreLoreParseError)


@pytest.mark.parametrize("levels", [99, 101, 500, 900])
def test_depth_of_nesting_is_limited(levels: int) -> None:
    text = '{"entries": ' + "[" * (levels - 1) + "]" * (levels - 1) + "}"
    warnings: list[str] = []
    book = WorldBook.loads(text, name="Deep", warn=warnings.append)
    assert bool(warnings) == (levels > 100)
    book.to_json()
    book.to_character_book()
    with pytest.raises(LoreParseError):
        WorldBook.loads("[" * 500 + "]" * 500, name="Deep", strict=True)


def test_bad_entries_are_named_and_left_out() -> None:
    entries: dict[str, object] = {
        "0": None,
        "1": {"uid": 1, "content": 5, "constant": True},
        "2": {"uid": 2, "key": [1]},
        "3": {"uid": 3, "keysecondary": [None]},
        "4": {"uid": 4, "content": "good", "constant": True, "position": 0},
    }
    book = WorldBook.from_json({"entries": entries}, name="Lore")
    warnings: list[str] = []
    assert scan(book, "x", warn=warnings.append).before == "good"
    assert len(warnings) == 4
    assert all(f"entry '{number}'" in warning for number, warning in enumerate(warnings))
    assert scan(book, "x", warn=warnings.append).before == "good"
    assert len(warnings) == 8


def test_a_flood_of_bad_entries_is_counted() -> None:
    book = WorldBook.from_json({"entries": [None] * 150}, name="Lore")
    warnings: list[str] = []
    assert scan(book, "x", warn=warnings.append).activated == ()
    assert len(warnings) == 101
    assert "150 bad entries" in warnings[-1]


def test_refused_import_says_why_or_raises() -> None:
    warnings: list[str] = []
    assert import_world("CON.json", '{"entries": {}}', warn=warnings.append) is None
    assert import_world("book.json", "5", warn=warnings.append) is None
    assert [("name" in warning, "entries" in warning) for warning in warnings] == [(True, False), (False, True)]
    with pytest.raises(LoreParseError):
        import_world("book.json", "5", strict=True)


def test_novel_ai_lorebook_in_a_picture() -> None:
    lorebook = {"lorebookVersion": 5, "entries": [{"text": "gate text", "displayName": "Gate", "keys": ["gate"]}]}
    picture = placeholder_png(8, 8)
    at = picture.index(b"IEND") - 4
    text = base64.b64encode(json.dumps(lorebook).encode())
    book = import_world("town.png", picture[:at] + text_chunk("naidata", text) + picture[at:])
    assert book is not None
    assert (book.name, book.entries[0].content, book.entries[0].keys) == ("town", "gate text", ("gate",))
    warnings: list[str] = []
    assert import_world("town.png", picture, warn=warnings.append) is None
    assert import_world("town.png", picture[:9], warn=warnings.append) is None
    assert "contains no lorebook" in warnings[0]


def test_character_book_round_trip_keeps_what_it_can() -> None:
    book = make_book({"key": ["a"], "content": "x", "position": 4, "depth": 2, "role": 1, "sticky": 3, "order": 7})
    back = WorldBook.from_character_book(book.to_character_book(), name="Lore")
    before, after = book.entries[0], back.entries[0]
    for name in ("keys", "content", "position", "depth", "role", "sticky", "order", "group_weight"):
        assert getattr(before, name) == getattr(after, name)


@pytest.mark.parametrize("value", [None, 5, "x", [], {"entries": 5}, {"entries": [None, 5]}])
def test_odd_character_books_become_empty_worlds(value: object) -> None:
    assert WorldBook.from_character_book(value, name="B").entries == ()


@pytest.mark.parametrize("value", [None, 5, "x", [], {"entries": 5}, {"entries": {"0": None}}])
def test_odd_worlds_become_empty_character_books(value: object) -> None:
    assert WorldBook.from_json(value, name="B").to_character_book() == {"entries": [], "name": "B"}


def test_entries_in_a_list_are_duplicated_by_their_index() -> None:
    world: JsonObject = {"entries": [{"uid": 9, "comment": "first"}]}
    copy = duplicate_entry(world, "0")
    assert copy is not None
    assert (copy["uid"], copy["comment"]) == (1, "first")
    assert duplicate_entry(world, "7") is None
    assert duplicate_entry(world, "x") is None
