"""What changed between two versions of a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tavernkit.authoring import Change, diff_files, diff_values, file_text
from tavernkit.cards import Character, save

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("abcxid"), inner, max_size=4),
    max_leaves=15,
)


def kinds(old: Any, new: Any) -> list[tuple[str, str]]:
    return [(change.kind, change.where) for change in diff_values(old, new)]


def test_fields_are_compared_by_name() -> None:
    assert kinds({"a": 1, "b": {"c": 2}}, {"b": {"c": 3}, "d": 4}) == [
        ("removed", "/a"),
        ("changed", "/b/c"),
        ("added", "/d"),
    ]
    assert kinds({"a": True}, {"a": 1}) == [("changed", "/a")]


def test_an_entry_that_only_has_another_place_is_a_move() -> None:
    one, two, three = ({"id": number, "comment": f"n{number}", "content": "x"} for number in (1, 2, 3))
    changed = {**two, "content": "y"}
    assert diff_values({"entries": [one, two, three]}, {"entries": [three, one, changed]}) == [
        Change("moved", "/entries/0", 2, 0, "n3"),
        Change("changed", "/entries/2/content", "x", "y", "n2"),
    ]


def test_entries_are_added_and_removed() -> None:
    old = {"entries": {"0": {"uid": 0, "comment": "Lamp"}, "1": {"uid": 1, "comment": "Sea"}}}
    new = {"entries": {"0": {"uid": 0, "comment": "Lamps"}, "2": {"uid": 2, "comment": "Sky"}}}
    assert [(change.kind, change.where, change.name) for change in diff_values(old, new)] == [
        ("changed", "/entries/0/comment", "Lamps"),
        ("removed", "/entries/1", "Sea"),
        ("added", "/entries/2", "Sky"),
    ]


def test_lists_of_texts_say_what_went_and_came() -> None:
    assert kinds({"tags": ["a", "b"]}, {"tags": ["b", "c"]}) == [("removed", "/tags"), ("added", "/tags")]
    assert kinds({"tags": ["a", "b"]}, {"tags": ["b", "a"]}) == [("changed", "/tags")]


def test_cards_are_compared_whatever_they_are_packed_in(tmp_path: Path) -> None:
    old, new = tmp_path / "old.png", tmp_path / "new.charx"
    save(Character(name="Aria", description="A keeper."), old)
    save(Character(name="Aria", description="A sailor."), new)
    changes = diff_files(old, new)
    assert ("changed", "/data/description") in [(change.kind, change.where) for change in changes]


@pytest.mark.parametrize("name", ["card.json", "card.yaml"])
def test_files_with_a_byte_order_mark_are_read(name: str, tmp_path: Path) -> None:
    fields = dict.fromkeys(("name", "description", "personality", "scenario", "first_mes", "mes_example"), "x")
    text = json.dumps(fields) if name.endswith(".json") else "".join(f"{key}: x\n" for key in fields)
    (tmp_path / name).write_text(text, encoding="utf-8-sig")
    assert "x" in file_text(tmp_path / name, warn=lambda _: None).split()


def test_books_are_compared_as_they_are(tmp_path: Path) -> None:
    for name, content in (("old.json", "x"), ("new.json", "y")):
        (tmp_path / name).write_text(json.dumps({"entries": {"0": {"uid": 0, "content": content}}}))
    [change] = diff_files(tmp_path / "old.json", tmp_path / "new.json")
    assert (change.where, change.old, change.new) == ("/entries/0/content", "x", "y")


@given(JSON)
def test_a_value_does_not_differ_from_itself(value: Any) -> None:
    assert diff_values(value, json.loads(json.dumps(value))) == []


@given(JSON, JSON)
def test_values_that_differ_have_a_difference(old: Any, new: Any) -> None:
    assert bool(diff_values(old, new)) == (json.dumps(old, sort_keys=True) != json.dumps(new, sort_keys=True))


@pytest.mark.parametrize("count", [2_000])
def test_long_books_that_are_turned_around_are_compared_in_time(count: int) -> None:
    entries = [{"id": number} for number in range(count)]
    assert len(diff_values(entries, entries[::-1])) == count - 1
