from __future__ import annotations

import pytest

from tavernkit.prompt import choices


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
    assert choices.generation_type(value) == read


def test_triggers_are_read_once_each() -> None:
    assert choices.generation_types(["swipe", 3, "x", None, "normal"]) == ["swipe", "normal"]
    assert choices.generation_types("quiet") == ["quiet"]
    assert choices.generation_types(None) == []


@pytest.mark.parametrize(
    ("value", "read"), [(1, "user"), (2, "assistant"), ("TOOL", "tool"), (3, "system"), (-1, "system"), ({}, "system")]
)
def test_roles(value: object, read: str) -> None:
    assert choices.role(value) == read
