from __future__ import annotations

import pytest

from tavernkit.prompt import _entry as entry


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
    assert entry.generation_type(value) == read


def test_triggers_are_read_once_each() -> None:
    assert entry.generation_types(["swipe", 3, "x", None, "normal"]) == ["swipe", "normal"]
    assert entry.generation_types("quiet") == ["quiet"]
    assert entry.generation_types(None) == []


@pytest.mark.parametrize(
    ("value", "read"), [(1, "user"), (2, "assistant"), ("TOOL", "tool"), (3, "system"), (-1, "system"), ({}, "system")]
)
def test_roles(value: object, read: str) -> None:
    assert entry.role(value) == read
