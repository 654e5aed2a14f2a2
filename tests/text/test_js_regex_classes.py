"""Escapes and ends of character classes that the recorded patterns do not have."""

from __future__ import annotations

import pytest

from tavernkit.text.js_regex import JSRegex, JSRegexSyntaxError


@pytest.mark.parametrize(
    ("source", "flags"),
    [
        ("[a", ""),
        ("[a", "v"),
        ("[\\q{ab", "v"),
        ("[a\\", ""),
        ("a\\", ""),
        ("\\p{", "u"),
        ("[\\p{", "u"),
        ("[\\01]", "u"),
        ("[\\8]", "u"),
        ("[\\01]", "v"),
    ],
)
def test_a_pattern_that_ends_too_early_or_escapes_too_much_is_refused(source: str, flags: str) -> None:
    with pytest.raises(JSRegexSyntaxError):
        JSRegex.compile(source, flags)


@pytest.mark.parametrize(
    ("source", "flags", "text", "found"),
    [
        ("[\\0]", "u", "a\0b", "\0"),
        ("[\\0]", "v", "a\0b", "\0"),
        ("[\\ca]", "v", "a\x01b", "\x01"),
        ("[\\cA]", "", "a\x01b", "\x01"),
        ("[\\8]", "", "a8b", "8"),
        ("[\\101]", "", "aAb", "A"),
        ("[\\q{ab|c}]", "v", "xabc", "ab"),
    ],
)
def test_an_escape_inside_a_class_stands_for_its_character(source: str, flags: str, text: str, found: str) -> None:
    match = JSRegex.compile(source, flags).search(text)
    assert match is not None
    assert match.text == found
