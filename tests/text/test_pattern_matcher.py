"""Patterns in prompt conditions."""

from __future__ import annotations

from typing import TypedDict

import pytest

from tavernkit._text.js_regex import JSRegex
from tavernkit.prompt._entry import matches


class Options(TypedDict, total=False):
    case_sensitive: bool
    match_whole_words: bool


@pytest.mark.parametrize(
    ("pattern", "text", "options", "found"),
    [
        (" Dragon ", "a dragon!", {}, True),
        ("Dragon", "a dragon!", {"case_sensitive": True}, False),
        ("", "anything", {}, False),
        (" \t", "anything", {}, False),
        ("\u3000", "a\u3000b", {}, True),
        ("elf", "himself", {}, True),
        ("elf", "himself", {"match_whole_words": True}, False),
        ("elf", "himself elf", {"match_whole_words": True}, True),
        ("elf", "elf", {"match_whole_words": True}, True),
        ("elf", "éelfé", {"match_whole_words": True}, True),
        ("elf lord", "himself lordly", {"match_whole_words": True}, True),
        ("/dr.gon/", "DRAGON", {}, True),
        ("/dr.gon/", "DRAGON", {"case_sensitive": True}, False),
        ("/dr.gon/i", "DRAGON", {"case_sensitive": True}, True),
        ("/a.b/", "a\nb", {}, False),
        ("/a.b/s", "a\nb", {}, True),
        ("/a\\/b/", "a/b", {}, True),
        ("/^b/m", "a\nb", {}, False),
        ("/a/b/", "/a/b/", {}, True),
        ("/😀{2}/u", "😀\ude00", {}, True),
    ],
)
def test_plain_text_and_regexes(pattern: str, text: str, options: Options, found: bool) -> None:
    assert matches(pattern, text, **options) is found


def test_a_compiled_regex_is_used_as_it_is() -> None:
    assert matches(JSRegex.compile("a.c", "s"), "A\nC")
    assert not matches(JSRegex.compile("a.c", "s"), "A\nC", case_sensitive=True)


def test_a_broken_regex_matches_nothing_and_is_reported() -> None:
    warnings: list[str] = []
    assert not matches("/(/", "(", warn=warnings.append)
    assert "Unterminated group" in warnings[0]
    assert not matches("/(/", "(")


def test_a_runaway_regex_matches_nothing_and_is_reported() -> None:
    warnings: list[str] = []
    assert not matches("/(a+)+m/", "a" * 64, timeout=0.5, warn=warnings.append)
    assert "longer than 500 ms" in warnings[0]
