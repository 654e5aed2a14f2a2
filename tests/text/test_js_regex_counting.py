"""Which patterns could tell a character from its two units, and what those that cannot are spared."""

from __future__ import annotations

import pytest

from tavernkit._text.js_regex import JSRegex
from tavernkit._text.js_regex.analysis import counts_characters
from tavernkit._text.js_regex.syntax import parse_pattern

WHOLE = [
    "\\bsmiles\\b",
    '"(.*?)"',
    "\\*([^*]+)\\*",
    "\\{\\{(char|user)\\}\\}",
    "^[ \\t]+|[ \\t]+$",
    "(\\w+)\\s+(\\w+)",
    "<think>[\\s\\S]*?</think>",
    "<b>(?:.|\\n)*?</b>",
    "^(.+):\\s*(.*)$",
    "\\s*(.+?)\\s*:",
    '(?<=")[^"]+(?=")',
    "(?<!\\w)elf",
    ".+",
    "x?[^*]+\\*",
    "(?:[^*]+\\*)+",
    "(?:x[^*]+\\*){2,3}",
    "(?:a?){0}x",
    "\\Bx",
    "a|[^*]+",
    "^\\s*$",
]
SEEING_UNITS = [
    *[".", "..", ".{2}", ".+?", "[^]{2,}", "(.|\\n)*?x", "(.+)(.+)", "[^*]+.*x", "(?:.*)*"],
    *["", "x*", "\\B", "(?!x)", "x*|y", ".*", "(?:\\b|\\W+)(?<=\\b)", "(?:x[^*]+)*"],
    *["[^*]+(?!y)", ".*\\B", "\\B.+x", "(?<!a).+x", "(?=.)x", "(?<=.)x", '(["*]).*?\\1'],
    *["😀", "[😀]", "\\ud83d", "[\\ud83d]+", "[\\u0080-\\uffff]+", "[^\\ud83d]+"],
]


@pytest.mark.parametrize("source", WHOLE)
def test_an_ordinary_pattern_cannot_tell(source: str) -> None:
    assert counts_characters(parse_pattern(source, ""))


@pytest.mark.parametrize("source", SEEING_UNITS)
def test_a_pattern_that_might_tell_sees_the_units(source: str) -> None:
    assert not counts_characters(parse_pattern(source, ""))


def test_a_sticky_pattern_sees_the_units_unless_it_counts_characters() -> None:
    assert not counts_characters(parse_pattern("x", "y"))
    assert counts_characters(parse_pattern(".", "yu"))
    assert counts_characters(parse_pattern("[😀]", "v"))


def test_after_an_empty_match_the_second_unit_is_tried() -> None:
    found = JSRegex("(?:\\b|\\W+)(?<=\\b)", "g").find_all("b😁😀\né😀b")
    assert [(match.utf16_start, match.utf16_end) for match in found] == [(0, 0), (1, 1), (2, 9), (9, 9), (10, 10)]


@pytest.mark.parametrize("before", ["", "é", "😁", "\ude00"])
def test_halves_that_come_together_are_one_character_again(before: str) -> None:
    assert JSRegex("x", "g").replace(f"{before}x\ude00", "\ud83d") == f"{before}😀"
    assert (
        JSRegex("[xy]", "g").replace(f"{before}xy", lambda one: {"x": "\ud83d"}.get(one.text, "\ude00"))
        == f"{before}😀"
    )
    assert JSRegex("x", "g").replace(f"{before}xx", "\ude00\ud83d") == f"{before}\ude00😀\ud83d"


def test_loops_in_loops_are_asked_a_few_times_only() -> None:
    source = "(?:" * 49 + "a*" + ")*" * 49
    assert not counts_characters(parse_pattern(source, ""))
