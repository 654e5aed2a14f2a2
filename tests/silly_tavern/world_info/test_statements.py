"""Single statements about World Info that no vector holds on its own."""

from __future__ import annotations

from typing import Any

import pytest

from tavernkit.silly_tavern import ChatMetadata, NoteSettings, Settings
from tavernkit.silly_tavern._world_info import (
    Entry,
    ScanInput,
    SelectedBooks,
    WorldBook,
    WorldInfoEngine,
    WorldInfoResult,
    WorldInfoSettings,
    hashed_json,
    import_world,
    split_keys,
)
from tests.silly_tavern.scene import build, contents
from tests.silly_tavern.world_info.scanning import count_words, make_book, scan

ALWAYS = {"constant": True}


def uids(result: WorldInfoResult) -> list[object]:
    return [one.entry.uid for one in result.activated]


@pytest.mark.parametrize("key", ["--", "{{noop}}--", "/(?:^|\\W)--(?:$|\\W)/"])
def test_a_whole_word_may_overlap_with_what_is_none(key: str) -> None:
    expand = {"{{noop}}--": "--"}
    book = make_book({"key": [key], "content": "found"})
    assert scan(book, "x---", expand=lambda text: expand.get(text, text)).before == "found"


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({"key": [" "]}, True),
        ({"key": ["/^$/"]}, True),
        ({"key": ["old"]}, False),
        ({"key": ["note"], "matchScenario": True}, False),
        ({"key": [" "], "keysecondary": [" "]}, True),
        ({"key": [" "], "keysecondary": [""], "selectiveLogic": 2}, True),
        ({"key": [" "], "keysecondary": ["", " "], "selectiveLogic": 3}, False),
    ],
)
@pytest.mark.parametrize("depth", [0, -1])
def test_an_entry_that_looks_at_no_message_sees_an_empty_text(depth: int, fields: dict[str, Any], found: bool) -> None:
    book = make_book({**fields, "scanDepth": depth, "content": "found"})
    assert bool(scan(book, "old", injects=("old",)).activated) is found


def test_what_the_budget_never_let_be_reached_feeds_recursion_with_its_macros() -> None:
    late = {"delayUntilRecursion": 2, "ignoreBudget": True, "order": 1}
    book = make_book(
        {**ALWAYS, "content": "<u> " + "word " * 9, "order": 300},
        {**ALWAYS, "content": "<u> second", "order": 200},
        {"key": ["ann word"], **late},
        {"key": ["ann second"], **late},
        {"key": ["u> second"], **late},
        {"delayUntilRecursion": True, "disable": True},
    )
    # Keys hold no macro here, contents do.
    result = scan(book, "chat", max_context=20, expand=lambda text: text.replace("<u> ", "Ann "))
    assert uids(result) == [2, 4]


@pytest.mark.parametrize(
    ("rolls", "successful", "activated"),
    [([0.9, 0.1], 1, [0]), ([0.1, 0.1], 2, [0]), ([0.9, 0.9], 0, [])],
)
def test_a_book_that_is_selected_twice_rolls_for_each_copy(
    rolls: list[float], successful: int, activated: list[int]
) -> None:
    book = make_book({"key": ["hi"], "probability": 50, "content": "text"})
    draws = iter(rolls)
    result = WorldInfoEngine().scan(
        ScanInput(
            messages=["hi"],
            books=SelectedBooks(global_=(book, book)),
            max_context=1000,
            count_tokens=count_words,
            random=lambda: next(draws),
        )
    )
    assert len(result.passes[0].successful) == successful
    assert uids(result) == activated
    assert next(draws, None) is None


@pytest.mark.parametrize(
    ("depths", "groups"),
    [
        ([4, None], [(4, 2)]),
        ([None, 4, None], [(None, 1), (4, 2)]),
        ([None, None], [(None, 1), (None, 1)]),
        (["4", 4, "4"], [("4", 2), (4, 1)]),
    ],
)
def test_entries_at_a_depth_join_the_group_that_was_opened_with_it(depths: list[Any], groups: list[Any]) -> None:
    entries = [
        {**ALWAYS, "position": 4, "depth": depth, "content": "x", "order": -at} for at, depth in enumerate(depths)
    ]
    result = scan(make_book(*entries), "hi")
    assert [(group.depth, len(group.entries)) for group in result.depth_groups] == groups


@pytest.mark.parametrize(
    ("allowed", "interval", "called"), [(True, 1, True), (False, 1, False), (True, 2, True), (True, 3, False)]
)
def test_the_authors_note_calls_lore_where_that_is_allowed_and_it_is_due(
    allowed: bool, interval: int, called: bool
) -> None:
    plan = build(
        settings=Settings(note=NoteSettings(allow_wi_scan=allowed)),
        chat_metadata=ChatMetadata(note_prompt="A {{reverse::nekark}}.", note_interval=interval),
        books=[make_book({"key": ["kraken"], "content": "Krakens are large."})],
    )
    assert ("Krakens are large." in contents(plan)) is called


@pytest.mark.parametrize(
    ("raw", "written"),
    [
        (
            {"uid": 1, "decorators": 5, "content": "@@activate\nx", "key": []},
            '"decorators":["@@activate"],"content":"x","key":[]',
        ),
        ({"decorators": 5, "uid": 1, "key": []}, '"decorators":[],"key":[],"content":""'),
        ({"key": [], "uid": 1}, '"key":[],"decorators":[],"content":""'),
    ],
)
def test_stored_decorators_keep_their_place_in_the_hashed_text(raw: dict[str, Any], written: str) -> None:
    assert hashed_json(Entry(raw, "W")) == '{"uid":1,"world":"W",' + written + "}"


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("a/b,c/d,e", ["a/b,c/d", "e"]),
        ("/a/b,c/d,e", ["/a/b", "c/d,e"]),
        ("/x/y/z,w", ["/x/y/z", "w"]),
        ("x,/a,b/", ["x", "/a", "b/"]),
        ("x, /a,b/i,c", ["x", "/a,b/i", "c"]),
        ("a,,b", ["a", ",b"]),
        (" , ,", []),
    ],
)
def test_typed_keys(text: str, keys: list[str]) -> None:
    assert split_keys(text) == keys


@pytest.mark.parametrize(
    ("filename", "name"),
    [
        ("a.b.json", "a.b"),
        ("folder\\we ird?.json", "we ird"),
        ("名.JSON", "名"),
        ("a.json. ", "a"),
        ("com10.json", "com10"),
        ("com1.json", None),
        ("nul.x.json", None),
        ("plain", None),
        ("a\tb.json", None),
    ],
)
def test_names_of_imported_worlds(filename: str, name: str | None) -> None:
    book = import_world(filename, '{"entries": null}', warn=lambda _message: None)
    assert (book.name if book is not None else None) == name


@pytest.mark.parametrize(
    ("text", "imported"),
    [("null", False), ("5", False), ('"entries"', False), ("{}", False), ("\ufeff{}", False), ("[]", True)],
)
def test_what_is_a_world_file(text: str, imported: bool) -> None:
    assert isinstance(import_world("x.json", text, warn=lambda _message: None), WorldBook) is imported


def test_strategies_and_sources_that_are_unknown_mix_evenly() -> None:
    low, high = make_book({**ALWAYS, "order": 1}), make_book({**ALWAYS, "order": 2}, name="Own")
    for strategy, order in ((0, "Own Lore"), (1, "Own Lore"), (2, "Lore Own"), (9, "Own Lore")):
        result = WorldInfoEngine().scan(
            ScanInput(
                messages=["hi"],
                books=SelectedBooks(global_=(low,), character=(high,)),
                max_context=1000,
                count_tokens=count_words,
                settings=WorldInfoSettings(character_strategy=strategy),
            )
        )
        assert " ".join(one.world for one in result.activated) == order


@pytest.mark.parametrize("file", [{"entries": "text"}, {"entries": None}, {"0": {"key": ["a"]}}, [], "text", 5])
def test_a_book_without_entries_is_reported(file: object) -> None:
    warnings: list[str] = []
    assert list(WorldBook.from_json(file, name="Town").usable_entries(warnings.append)) == []
    assert warnings == ["world book 'Town' is treated as empty: it has no object or list under \"entries\""]


@pytest.mark.parametrize("file", [{}, {"entries": {}}, {"entries": []}])
def test_an_empty_book_is_no_news(file: object) -> None:
    warnings: list[str] = []
    assert list(WorldBook.from_json(file, name="Town").usable_entries(warnings.append)) == []
    assert warnings == []
