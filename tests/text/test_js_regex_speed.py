"""What an ordinary call does besides calling the engine: counted, as times say different things on every machine."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from types import FrameType

import pytest

from tavernkit._text.js_regex import JSRegex, guard, limits
from tavernkit._text.js_regex.scanner import JSRegexSyntaxError
from tavernkit._text.js_regex.syntax import parse_pattern
from tavernkit._text.js_values import utf16_length
from tests.quickness import at_most, linear_time

SENTENCE = 'The old dragon slept. "Who goes there?" *She smiles* at {{user}} and nods.\n'
PROSE = SENTENCE * 60
PATTERNS = [
    ("\\bsmiles\\b", "gi"),
    ('"(.*?)"', "g"),
    ("\\*([^*]+)\\*", "g"),
    ("\\{\\{(char|user)\\}\\}", "gi"),
    ("(\\w+)\\s+(\\w+)", "g"),
]

every_pattern = pytest.mark.parametrize(("source", "flags"), PATTERNS, ids=[source for source, _ in PATTERNS])


def count_calls(action: Callable[[], object]) -> int:
    """Count the Python functions that are called, without the action itself."""
    count = 0

    def profile(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event == "call"

    before, collecting = sys.getprofile(), gc.isenabled()
    # A collection would call what others have registered for it.
    gc.disable()
    sys.setprofile(profile)
    try:
        action()
    finally:
        sys.setprofile(before)
        if collecting:
            gc.enable()
    return count - 1


@every_pattern
def test_a_search_in_a_known_text_is_one_call(source: str, flags: str) -> None:
    regex = JSRegex(source, flags)
    for _ in range(3):
        regex.search(PROSE)
    assert count_calls(lambda: regex.search(PROSE)) == 1
    assert count_calls(lambda: regex.test(PROSE)) == 1
    wide = PROSE.replace("dragon", "龍 😀")
    for _ in range(3):
        regex.search(wide)
    assert count_calls(lambda: regex.search(wide)) == 1
    assert count_calls(lambda: regex.test(wide)) == 1


@every_pattern
@pytest.mark.parametrize("template", ["", "text", "[$&]", "$&!"])
def test_replacing_takes_no_calls_for_a_match(source: str, flags: str, template: str) -> None:
    regex = JSRegex(source, flags)
    regex.replace(PROSE, template)
    assert count_calls(lambda: regex.replace(PROSE, template)) <= 20


@every_pattern
def test_finding_all_makes_one_call_for_the_text_of_a_match(source: str, flags: str) -> None:
    regex = JSRegex(source, flags)
    matches = len(regex.find_all(PROSE))
    assert count_calls(lambda: regex.find_all(PROSE)) <= 10
    assert count_calls(lambda: [match.text for match in regex.find_all(PROSE)]) <= matches + 11


@every_pattern
def test_a_text_is_judged_once_for_a_pattern(monkeypatch: pytest.MonkeyPatch, source: str, flags: str) -> None:
    regex = JSRegex(source, flags)
    text = f"{source} {PROSE}"
    expected = regex.replace(text, "<$&>")
    monkeypatch.setattr(guard, "measure", None)
    monkeypatch.setattr(guard, "PatternMeasures", None)
    assert regex.replace(text, "<$&>") == expected
    # A smaller budget is a new question.
    smaller = 1 / limits.STEPS_PER_SECOND
    assert not regex._guard.is_known_quick(text, smaller)


def test_what_is_known_of_texts_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "_measured", {})
    for index in range(3 * limits.MEASURES_CACHE_SIZE):
        guard.measure(f"text {index}")
    assert len(guard._measured) == limits.MEASURES_CACHE_SIZE
    assert f"text {3 * limits.MEASURES_CACHE_SIZE - 1}" in guard._measured
    for index in range(5):
        guard.measure(f"{index}" * (limits.MEASURED_LENGTH // 2))
    assert len(guard._measured) == 2


def test_what_is_known_of_expressions_on_a_text_is_bounded() -> None:
    known = guard.TextMeasures("text")
    for _ in range(3 * limits.BOUNDS_CACHE_SIZE + 1):
        known.keep_bound(guard.KnownQuick(length=0), 1.0)
    assert len(known.bounds) == 1


@pytest.mark.parametrize("newer", ["texts", "expressions"])
def test_an_expression_keeps_no_text_longer_than_its_measures_are_kept(
    monkeypatch: pytest.MonkeyPatch, newer: str
) -> None:
    monkeypatch.setattr(guard, "_measured", {})
    regex = JSRegex('"(.*?)"')
    regex.search(PROSE)
    assert regex._quick.text is regex._quick.seen.text is PROSE
    if newer == "texts":
        for index in range(limits.MEASURES_CACHE_SIZE):
            guard.measure(f"text {index}")
    else:
        for _ in range(limits.BOUNDS_CACHE_SIZE):
            guard.measure(PROSE).keep_bound(guard.KnownQuick(length=0), 1.0)
    assert regex._quick.text is None
    assert regex._quick.seen is guard._NOTHING
    assert regex.search(PROSE) is not None


def test_an_expression_that_is_always_quick_keeps_no_long_text() -> None:
    regex = JSRegex("dragon")
    for text in (PROSE, PROSE * 10):
        for _ in range(3):
            assert regex.search(text) is not None
        assert regex._quick.last is regex._quick.seen.text is PROSE


def test_a_text_that_is_quick_only_with_more_time_is_not_taken_for_quick() -> None:
    regex = JSRegex("\\s+$")
    text = " " * 5000 + "x"
    assert regex.search(text, timeout=60) is None
    assert regex._guard.is_known_quick(text, 60)
    assert regex._quick.text is None


def test_many_different_characters_beyond_the_basic_plane_take_linear_time() -> None:
    text = "".join(map(chr, range(0x10000, 0x10000 + 30_000)))
    with linear_time():
        assert JSRegex("..", "g").replace(text, "$&") == text
        assert [match.text for match in JSRegex("..", "g").find_all(text)] == list(text)


def test_offsets_of_many_matches_take_linear_time() -> None:
    text = "😀 word " * 30_000
    with linear_time():
        assert [match.start for match in JSRegex("word", "g").find_all(text)] == list(range(2, len(text), 7))
        assert [match.utf16_start for match in JSRegex("word", "gu").find_all(text)] == list(range(3, 8 * 30_000, 8))


READING = 5 * limits.DEFAULT_TIMEOUT
"""Reading the largest pattern takes up to 0.1 s; a machine may be slow."""


def largest(source: str, flags: str, length: int, parts: int) -> JSRegex:
    """Repeat a source as often as the limits allow."""
    each = parse_pattern(source, flags).part_count
    return JSRegex(source * min(length // utf16_length(source), parts // each if each else length), flags)


@pytest.mark.parametrize(
    ("source", "flags"),
    [
        ("x", "i"),
        ("x*", ""),
        (".*", ""),
        ("\\d", ""),
        ("😀", ""),
        ("(?=x)", ""),
        ("x|", ""),
        ("some words|", "i"),
        ("[a-zé-ü]", "i"),
        ("(x)", ""),
        ("(x+)", ""),
        ("(?:x|y|)", ""),
        ("(?:x{9}){9}", ""),
        ("[\\p{L}--\\p{Lu}]", "v"),
    ],
)
def test_the_largest_patterns_are_read_and_judged_in_about_the_time_of_a_call(source: str, flags: str) -> None:
    with at_most(READING):
        largest(source, flags, limits.MAX_SOURCE_LENGTH, limits.MAX_PARTS)
    regex = largest(source, flags, limits.MAX_JUDGED_LENGTH, limits.MAX_JUDGED_PARTS)
    with at_most(READING):
        regex._guard.is_quick(PROSE, limits.DEFAULT_TIMEOUT)


def test_one_name_in_many_alternatives_is_read_in_that_time() -> None:
    with at_most(READING):
        JSRegex("(?<name>x)|" * (limits.MAX_SOURCE_LENGTH // 11))


@pytest.mark.parametrize("step", [0, 1])
def test_classes_that_become_too_long_with_both_cases_are_refused_in_that_time(step: int) -> None:
    classes = [f"[{chr(0x100 + step * at)}-{chr(0x8000 + step * at)}]" for at in range(3_900)]
    with at_most(READING), pytest.raises(JSRegexSyntaxError, match="too large"):
        JSRegex("".join(classes), "i")
    assert JSRegex("".join(classes)[:5_000], "i").source


@pytest.mark.parametrize("flags", ["", "y"])
def test_a_search_from_the_middle_writes_the_pattern_once(flags: str, monkeypatch: pytest.MonkeyPatch) -> None:
    regex = JSRegex("\\b(?:some|words)\\b", flags)
    assert [found is not None for found in (regex.search("no words", 3), regex.search("no words", 2))] == [
        True,
        not flags,
    ]
    monkeypatch.setattr("tavernkit._text.js_regex.regex.emit_inner", None)
    assert regex.search("to words", 3) is not None


def test_a_long_pattern_is_shown_in_part_by_its_error() -> None:
    with pytest.raises(JSRegexSyntaxError, match="Unterminated group") as raised:
        JSRegex("x" * 10_000 + "(")
    assert len(str(raised.value)) < 1_200


def test_a_very_long_pattern_runs_in_a_worker() -> None:
    words = "|".join([f"word{number}" for number in range(2_000)])
    regex = JSRegex(words)
    assert len(words) > limits.MAX_JUDGED_LENGTH
    assert not regex._guard.is_quick("word", limits.DEFAULT_TIMEOUT)
    found = regex.search("the word1234", timeout=30)
    assert found is not None
    assert found.text == "word1"


def test_a_text_that_is_too_long_for_any_verdict_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    regex = JSRegex("x")
    monkeypatch.setattr(guard, "measure", None)
    assert not regex._guard.is_quick(
        "y" * int(limits.STEPS_PER_SECOND * limits.DEFAULT_TIMEOUT), limits.DEFAULT_TIMEOUT
    )
