"""JavaScript's replacement of texts, and where it ends."""

from __future__ import annotations

import pytest

from tavernkit.risu_ai._js import replace_all, replace_first
from tests.quickness import linear_time


@pytest.mark.parametrize(
    ("text", "wanted", "new", "first", "every"),
    [
        ("abab", "b", "-", "a-ab", "a-a-"),
        ("abab", "b", "[$`|$'|$&|$$|$x]", "a[a|ab|b|$|$x]ab", "a[a|ab|b|$|$x]a[aba||b|$|$x]"),
        ("ab", "c", "$&", "ab", "ab"),
        ("ab", "", "-", "-ab", "-a-b-"),
        ("ab", "", "$&$'.", "ab.ab", "ab.ab.b."),
    ],
)
def test_dollars_stand_for_what_is_around(text: str, wanted: str, new: str, first: str, every: str) -> None:
    assert replace_first(text, wanted, new) == first
    assert replace_all(text, wanted, new) == every


def test_what_would_be_too_long_is_left_as_it_was() -> None:
    warnings: list[str] = []
    with linear_time():
        frame = "a" * 100_000 + "{{slot}}"
        assert replace_first(frame, "{{slot}}", "$`" * 100_000, warn=warnings.append) == frame
        prompt = "{{original}}" * 50_000
        assert replace_all(prompt, "{{original}}", "b" * 100_000, warn=warnings.append) == prompt
        assert replace_all(prompt, "{{original}}", "b$'", warn=warnings.append) == prompt
        assert len(warnings) == 3
        assert "'{{slot}}' is not replaced" in warnings[0]
