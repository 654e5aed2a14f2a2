"""What an ordinary call does besides calling the engine: counted, as times say different things on every machine."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from types import FrameType

import pytest

from tavernkit.text.js_regex import JSRegex, guard, limits, measures

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
def test_a_search_in_a_known_text_takes_a_handful_of_calls(source: str, flags: str) -> None:
    regex = JSRegex(source, flags)
    regex.search(PROSE)
    assert count_calls(lambda: regex.search(PROSE)) <= 5
    assert count_calls(lambda: regex.test(PROSE)) <= 4


@every_pattern
@pytest.mark.parametrize("template", ["", "text", "[$&]", "$&!"])
def test_replacing_takes_no_calls_for_a_match(source: str, flags: str, template: str) -> None:
    regex = JSRegex(source, flags)
    regex.replace(PROSE, template)
    assert count_calls(lambda: regex.replace(PROSE, template)) <= 20


@every_pattern
def test_finding_all_makes_one_call_for_a_match_and_one_for_its_text(source: str, flags: str) -> None:
    regex = JSRegex(source, flags)
    matches = len(regex.find_all(PROSE))
    assert count_calls(lambda: regex.find_all(PROSE)) <= matches + 10
    assert count_calls(lambda: [match.text for match in regex.find_all(PROSE)]) <= 2 * matches + 11


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
    monkeypatch.setattr(measures, "_measured", {})
    for index in range(3 * limits.MEASURES_CACHE_SIZE):
        measures.measure(f"text {index}")
    assert len(measures._measured) == limits.MEASURES_CACHE_SIZE
    assert f"text {3 * limits.MEASURES_CACHE_SIZE - 1}" in measures._measured
    for index in range(5):
        measures.measure(f"{index}" * (limits.MEASURED_LENGTH // 2))
    assert len(measures._measured) == 2


def test_what_is_known_of_expressions_on_a_text_is_bounded() -> None:
    known = measures.TextMeasures("text")
    for index in range(3 * limits.BOUNDS_CACHE_SIZE + 1):
        known.keep_bound(index, 1.0)
    assert len(known.bounds) == 1


def test_a_text_that_is_too_long_for_any_verdict_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    regex = JSRegex("x")
    monkeypatch.setattr(guard, "measure", None)
    assert not regex._guard.is_quick(
        "y" * int(limits.STEPS_PER_SECOND * limits.DEFAULT_TIMEOUT), limits.DEFAULT_TIMEOUT
    )
