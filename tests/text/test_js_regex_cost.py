"""Which calls are known to be quick: ordinary ones must be, dangerous ones must not."""

from __future__ import annotations

import pytest

from tavernkit._text.js_regex import JSRegex
from tavernkit._text.js_regex.alphabet import Alphabet
from tavernkit._text.js_regex.cost import AnyText, CostModel
from tavernkit._text.js_regex.guard import PatternMeasures, TextMeasures
from tavernkit._text.js_regex.limits import DEFAULT_TIMEOUT
from tavernkit._text.js_regex.nodes import Char, CharClass, Repeat, Sequence
from tavernkit._text.js_regex.syntax import parse_pattern

PROSE = (
    "The old dragon slept under the mountain, and nobody in Eldoria knew his name.\n"
    '"Who goes there?" she asked. *She smiles at {{user}}.* Ein Mädchen sagt: 「龍だ！」 😀\n\n'
) * 40

ORDINARY = [
    ("dragon", "gi"),
    ("\\bdragon(?:s|'s)?\\b", "gi"),
    ('"(.*?)"', "g"),
    ('"[^"]*"', "g"),
    ("\\*(.+?)\\*", "g"),
    ("<thinking>[\\s\\S]*?</thinking>", "g"),
    ("<(\\w+)[^>]*>[\\s\\S]*?</\\1>", "g"),
    ("^\\s+|\\s+$", "g"),
    ("\\n{3,}", "g"),
    ("\\{\\{(char|user)\\}\\}", "gi"),
    ("(\\w+)\\s+(\\w+)", "g"),
    ("^(.+?): (.*)$", "gm"),
    ("(?<!\\w)elf(?!\\w)", "i"),
    ("「[^」]*」", "g"),
    ("(?:name|title)\\s*[:=]\\s*(.+)", "i"),
    ("\\b(?:king|queen|prince|princess)s?\\b", "i"),
    ("[\\u3040-\\u30ff\\u4e00-\\u9fff]+", "g"),
    ("\\p{Lu}\\p{Ll}+", "gu"),
    ("(\\d+)(?:\\.(\\d+))?", "g"),
    ("(?:^|\\s)#(\\w+)", "g"),
    ("!\\[.*?\\]\\(.*?\\)", "g"),
    ("", "g"),
]


@pytest.mark.parametrize(("source", "flags"), ORDINARY, ids=[source for source, _ in ORDINARY])
def test_ordinary_patterns_run_at_once_on_long_prose(source: str, flags: str) -> None:
    regex = JSRegex(source, flags)
    assert regex._guard.is_quick("short", DEFAULT_TIMEOUT)
    assert regex._guard.is_quick(PROSE, DEFAULT_TIMEOUT)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("(a+)+$", "a" * 40),
        ("(a|aa)+$", "a" * 40),
        ("(a|ab|b)+c", "ab" * 30),
        ("(?:a*)*b", "a" * 40),
        ("(.*a){12}x", "a" * 60),
        ("(\\w+\\s?)+$", "word " * 20),
        ("(?=(a+)+b)", "a" * 40),
        ("(?<=b(a+)+)c", "a" * 40 + "c"),
        ("\\s+$", " " * 20_000 + "x"),
        (".*.*=", "x" * 3000),
        ("(.+)\\1x", "ab" * 2000),
        ("(?:(?:x?)+)+", "a"),
        ("(?:(a)|b|(?:ab))*c", "ab" * 40),
        ("[a-z]+[a-y]+[b-z]+1", "bcd" * 200),
        ("(é|É)+!", "é" * 60),
        ("(?:é|ü|\\p{L})+!", "é" * 60),
    ],
)
def test_dangerous_calls_are_guarded(source: str, text: str) -> None:
    flags = "iu" if "\\p" in source else "i" if "É" in source else ""
    assert not JSRegex(source, flags)._guard.is_quick(text, DEFAULT_TIMEOUT)


def test_the_same_pattern_is_quick_where_the_text_is_harmless() -> None:
    regex = JSRegex("(a+)+$")
    assert regex._guard.is_quick("nothing but prose, " * 200, DEFAULT_TIMEOUT)
    assert not regex._guard.is_quick("a" * 40, DEFAULT_TIMEOUT)


def test_a_smaller_budget_allows_less() -> None:
    regex = JSRegex("x.*y")
    text = "x" * 900
    assert regex._guard.is_quick(text, DEFAULT_TIMEOUT)
    assert not regex._guard.is_quick(text, DEFAULT_TIMEOUT / 100)


@pytest.mark.parametrize(
    "source", ["(?:ab|ac|ad)*x", '(?:[^"\\\\]|\\\\.)*x', "(?:\\w+\\s)+x", "(?:ab?)*x", "(?:a|b)*x"]
)
def test_loops_with_one_way_through_do_not_explode(source: str) -> None:
    model = CostModel(parse_pattern(source, ""))
    assert model.steps(AnyText(2000)) < 3 * 2000**3


def test_many_names_that_share_beginnings_are_told_apart() -> None:
    names = "|".join(f"princess number {index:04}" for index in range(1000))
    model = CostModel(parse_pattern(f"(?:{names})+!", ""))
    assert model.steps(AnyText(100)) < 1e9


def measured(text: str, source: str) -> PatternMeasures:
    return PatternMeasures(TextMeasures(text), Alphabet(parse_pattern(source, "")))


def test_measures_of_a_text() -> None:
    measures = measured("aaab  é?", "é")
    a, space = 1 << ord("a"), 1 << ord(" ")
    assert measures.length == 8
    assert measures.count(a) == 3
    assert measures.count(-1) == 8
    assert 3 <= measures.run(a) <= 8
    assert 2 <= measures.run(space) <= 3
    assert measures.run(0) == 0
    assert measures.count_text("aa") >= 2
    assert measures.count_text("b ") == 1


def test_wide_characters_are_told_apart_where_the_pattern_does() -> None:
    pattern = parse_pattern("「[^」]*」", "")
    alphabet = Alphabet(pattern)
    measures = PatternMeasures(TextMeasures("龍「だ」よ? 「」"), alphabet)
    assert isinstance(pattern.root, Sequence)
    opening, repeat, _ = pattern.root.items
    assert isinstance(opening, Char)
    assert isinstance(repeat, Repeat)
    assert isinstance(repeat.body, CharClass)
    assert measures.count(alphabet.mask(opening)) == 2
    assert measures.run(alphabet.mask(repeat.body)) == 4


@pytest.mark.parametrize("length", [15, 16, 17, 100, 3000])
def test_long_runs_are_found(length: int) -> None:
    for text in ("b".join(["a" * length, "a", "a" * (length - 1)]), "a" * length + "b" * 5000):
        assert length <= measured(text, "a").run(1 << ord("a")) <= 2 * length
