"""Tolerant readers of options and keys."""

from __future__ import annotations

import pytest

from tavernkit._text import coerce
from tavernkit.prompt._context import underscore


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
