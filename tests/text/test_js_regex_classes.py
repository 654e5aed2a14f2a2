"""Escapes and ends of character classes that the recorded patterns do not have."""

from __future__ import annotations

import pytest
import regress

from tavernkit._text.js_regex import JSRegex, JSRegexSyntaxError
from tavernkit._text.js_regex.emit import cased_characters, unicode_variants
from tavernkit.errors import refuse_warning
from tests.quickness import at_most


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


@pytest.mark.parametrize(
    ("source", "flags", "text", "found"),
    [
        # A reference inside its own group is empty.
        (r"(a?\1)a", "", "a", "a"),
        (r"(?<x>a\k<x>)", "", "aa", "a"),
        (r"(a\1*)b", "", "ab", "ab"),
        (r"(?<=(\1a))b", "", "aab", "b"),
        (r"((a)|b\2)*", "", "aab", "aab"),
        # Case is folded before classes are subtracted, intersected and negated.
        (r"[\p{L}--[a-z]]", "iv", "K", None),
        (r"[\p{L}--[a-z]]", "iv", "É", "É"),
        (r"[\p{L}--[a-z]]", "v", "K", "K"),
        (r"[\p{Lu}&&[a-z]]", "iv", "K", "K"),
        (r"[\P{Lu}&&\p{L}]", "iv", "k", None),
        (r"[^\P{Lu}]", "iv", "k", "k"),
        (r"\P{Lu}", "iv", "k", None),
        (r"\P{Lu}", "iu", "k", "k"),
        (r"[\w&&ſ]", "iv", "S", "S"),
        (r"[\q{KM|x}--\q{km}]", "iv", "KM", None),
        (r"[\q{KM|x}&&\q{km}]", "iv", "KM", "KM"),
        (r"[^\q{K}]", "iv", "k", None),
        # Names may stand twice if only one of the groups can take part.
        (r"(?:(?<a>x)|(?<a>y))\k<a>", "", "yy", "yy"),
        (r"(?:(?:(?<a>x)|(?<a>y))\k<a>)+", "", "xxyy", "xxyy"),
        (r"(?:(?<a>x)|(?:(?<a>y)|(?<a>z)))\k<a>", "", "zz", "zz"),
        (r"\k<a>(?:(?<a>x)|(?<a>y))", "", "x", "x"),
    ],
)
def test_what_the_standard_says(source: str, flags: str, text: str, found: str | None) -> None:
    match = JSRegex(source, flags).search(text)
    assert (None if match is None else match.text) == found


@pytest.mark.parametrize(
    "source", [r"(?<a>x)(?<a>y)", r"(?<a>x|(?<a>y))", r"(?:(?<a>x)|b)(?<a>y)", r"(?=(?<a>x))(?<a>y)"]
)
def test_names_of_groups_that_may_both_take_part_are_refused(source: str) -> None:
    with pytest.raises(JSRegexSyntaxError, match="Duplicate"):
        JSRegex(source)


def test_a_name_that_stands_twice_has_what_was_captured_last() -> None:
    match = JSRegex(r"(?:(?<a>x)|(?<a>y))+").search("xy")
    assert match is not None
    assert match.named == {"a": "y"}
    assert match.groups == (None, "y")


def test_the_variants_of_characters_are_those_of_the_engine() -> None:
    text = cased_characters()
    data = text.encode()
    for code in map(ord, text):
        found = {
            ord(data[each.range()].decode()) for each in regress.Regex(f"\\u{{{code:x}}}", "iu").find_iter(text) or ()
        }
        assert found == {code, *unicode_variants(code, code)}


@pytest.mark.parametrize(
    ("source", "flags", "text", "found"),
    [
        (r"\p{RGI_Emoji}", "v", "x👨‍👩‍👧y", "👨‍👩‍👧"),
        (r"[\p{RGI_Emoji}--\q{👨‍👩‍👧}]", "v", "x👨‍👩‍👧y", "👨"),
        (r"[\p{RGI_Emoji}&&\p{ASCII}]", "v", "5", None),
        (r"^\p{RGI_Emoji}+$", "v", "👍🏽🇩🇪", "👍🏽🇩🇪"),
        (r"\p{RGI_Emoji}?", "v", "", ""),
        (r"\p{L}" * 20, "iu", "abcdefghijklmnopqrst", "abcdefghijklmnopqrst"),
    ],
)
def test_what_is_compiled_elsewhere_finds_the_same(source: str, flags: str, text: str, found: str | None) -> None:
    for timeout in (10.0, None):
        match = JSRegex(source, flags).search(text, timeout=timeout, warn=refuse_warning)
        assert (None if match is None else match.text) == found


@pytest.mark.parametrize(
    ("source", "flags"),
    [
        (r"\P{RGI_Emoji}", "v"),
        (r"\p{RGI_Foo}", "v"),
        (r"\p{RGI_Flag_Sequence}", "v"),
        (r"[\p{RGI_Modifier_Sequence}]", "giv"),
        (r"\p{RGI_Emoji}", "u"),
        (r"[^\p{RGI_Emoji}]", "v"),
        (r"[\p{Nope}]", "iv"),
        (r"\p{L}" * 20 + r"\p{Nope}", "u"),
    ],
)
def test_a_property_that_there_is_not_is_refused(source: str, flags: str) -> None:
    with pytest.raises(JSRegexSyntaxError):
        JSRegex(source, flags)


@pytest.mark.parametrize(
    ("source", "flags"), [(r"\p{RGI_Emoji}" * 2150, "v"), (r"\p{L}" * 4000, "iu"), (r"[\p{L}--\p{Lu}]" * 1800, "iv")]
)
def test_compiling_is_bounded(source: str, flags: str) -> None:
    """The engine writes out properties: in this process they would take seconds, or more than a gigabyte."""
    warnings: list[str] = []
    with at_most(0.5):
        try:
            found = JSRegex(source, flags).search("x", warn=warnings.append)
        except JSRegexSyntaxError:
            return
    assert found is None
    assert len(warnings) == 1
