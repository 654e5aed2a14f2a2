"""Tolerant readers of options, keys and lists."""

from __future__ import annotations

import math

import pytest

from tavernkit.text import coerce, string_lists
from tavernkit.text.blank import presence
from tavernkit.text.keys import KeyReader, camelize, convert_keys, format_text, underscore


@pytest.mark.parametrize(
    ("value", "read"),
    [(True, True), (" YES ", True), ("on", True), (1, True), ("0", False), ("Off", False), (0, False), ("n", False)],
)
def test_yes_and_no(value: object, read: bool) -> None:
    assert coerce.boolean(value, None) is read


@pytest.mark.parametrize("value", [None, "", "maybe", 2, 1.0, [], "truе"])
def test_neither_yes_nor_no_is_the_default(value: object) -> None:
    assert coerce.boolean(value, True) is True
    assert coerce.boolean(value, None) is None


@pytest.mark.parametrize(
    ("value", "read"),
    [
        (0, "normal"),
        ("3", "swipe"),
        (" Quiet", "quiet"),
        (6, "normal"),
        ("what", "normal"),
        (None, "normal"),
        (True, "normal"),
    ],
)
def test_generation_types(value: object, read: str) -> None:
    assert coerce.generation_type(value) == read


def test_triggers_are_read_once_each() -> None:
    assert coerce.generation_types(["swipe", 3, "x", None, "normal"]) == ["swipe", "normal"]
    assert coerce.generation_types("quiet") == ["quiet"]
    assert coerce.generation_types(None) == []


@pytest.mark.parametrize(
    ("value", "read"), [(1, "user"), (2, "assistant"), ("TOOL", "tool"), (3, "system"), (-1, "system"), ({}, "system")]
)
def test_roles(value: object, read: str) -> None:
    assert coerce.role(value) == read


@pytest.mark.parametrize(
    ("value", "read"),
    [(0, "in_prompt"), (2, "before_prompt"), ("after_scenario", "in_prompt"), ("inchart", "in_chat"), ("?", "in_chat")],
)
def test_authors_note_positions(value: object, read: str) -> None:
    assert coerce.authors_note_position(value) == read


def test_strategies_and_examples() -> None:
    assert coerce.insertion_strategy("char_first") == "character_lore_first"
    assert coerce.insertion_strategy("global") == "global_lore_first"
    assert coerce.insertion_strategy(1) == "sorted_evenly"
    assert coerce.examples_behavior("keep") == "always_keep"
    assert coerce.examples_behavior("off", "x") == "disabled"
    assert coerce.examples_behavior(None, None) is None


@pytest.mark.parametrize(
    ("value", "read"),
    [(5, 5), (5.9, 5), (-5.9, -5), (" 17 ", 17), ("+3", 3), ("1.5", None), (True, None), (math.inf, None), ("x", None)],
)
def test_timestamps(value: object, read: int | None) -> None:
    assert coerce.unix_timestamp(value) == read


@pytest.mark.parametrize(
    ("camel", "snake"),
    [
        ("caseSensitive", "case_sensitive"),
        ("HTMLParser", "html_parser"),
        ("a1B", "a1_b"),
        ("x", "x"),
        ("Chat::SideBar", "chat/side_bar"),
    ],
)
def test_key_styles(camel: str, snake: str) -> None:
    assert underscore(camel) == snake
    assert underscore(snake) == snake


def test_camel_case() -> None:
    assert [camelize(key) for key in ("case_sensitive", "Case-sensitive", "already", "a_1")] == [
        "caseSensitive",
        "caseSensitive",
        "already",
        "a1",
    ]


def test_keys_are_converted_however_deep() -> None:
    assert convert_keys({"aB": [{"cD": 1}]}, underscore) == {"a_b": [{"c_d": 1}]}


def test_formatting_keeps_what_has_no_argument() -> None:
    assert format_text("{0} and {1} {2} {x} {0}", "a", 2) == "a and 2 {2} {x} a"


@pytest.mark.parametrize(
    ("value", "kept"), [("", None), (" \0", None), ([], None), ({}, None), ("a", "a"), (0, 0), (False, False)]
)
def test_presence(value: object, kept: object) -> None:
    assert presence(value) == kept


def test_the_reader_finds_any_spelling_and_falls_back_to_extensions() -> None:
    reader = KeyReader(
        {"caseSensitive": "yes", "scan_depth": "4", "name": " ", "weight": 0, "extensions": {"scanRate": 2.9, "t": "x"}}
    )
    assert reader.boolean("case_sensitive") is True
    assert reader.boolean("missing", True) is True
    assert reader.integer("scanDepth") == 4
    assert reader.integer("rate", extension="scan_rate") == 2
    assert reader.integer("name", 7) == 7
    assert reader.positive_integer("weight", 1) == 1
    assert reader.positive_integer("scanDepth") == 4
    assert reader.text("weight") == "0"
    assert reader.text("title", extension="t") == "x"
    assert reader.text("none", "default") == "default"
    assert reader.presence("name", "nobody") == "nobody"
    assert reader.presence("scan_depth") == "4"
    assert reader.get("none", 3) == 3
    assert KeyReader({"extensions": 5}).get("x", extension="y") is None


@pytest.mark.parametrize(
    ("value", "names"),
    [(None, None), ("", None), ("a, b,,", ["a", "b"]), ([" a ", "", None, 3], ["a", "3"]), ([], None), (("x",), ["x"])],
)
def test_string_lists(value: object, names: list[str] | None) -> None:
    assert string_lists.normalize_string_list(value) == names


def test_an_empty_list_says_something_and_nothing_does_not() -> None:
    assert [string_lists.is_explicitly_empty(value) for value in (None, "", " , ", [], [" "], "a")] == [
        False,
        True,
        True,
        True,
        True,
        False,
    ]


def test_merging_string_lists() -> None:
    assert string_lists.merge_string_lists(["a", "b"], "b,c") == ["a", "b", "c"]
    assert string_lists.merge_string_lists(["a"], None) is None
    assert string_lists.merge_string_lists(["a"], []) == []
    assert string_lists.merge_string_lists(None, ["c"]) == ["c"]
