"""Texts that invite quadratic time: in linear time ten seconds are plenty, else it takes minutes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tavernkit._text.js_regex import JSRegex
from tavernkit._text.js_values import json_stringify, parse_float, to_number, utf16_find
from tavernkit._text.js_values.strings import occurrences
from tavernkit.prompt._context import underscore
from tavernkit.prompt._entry import matches
from tests.quickness import linear_time

SIZE = 400_000

CASES: dict[str, Callable[[], object]] = {
    "digits that are no number": lambda: to_number("1" * SIZE + "x"),
    "a fraction that is not a number": lambda: to_number("0." + "1" * SIZE + "ex"),
    "a number with something behind": lambda: parse_float("1" * SIZE + "x"),
    "a word that overlaps itself": lambda: matches("a" * (SIZE // 2), "a" * SIZE, match_whole_words=True),
    "halves of characters that look alike": lambda: utf16_find("\u6100" * SIZE + "😀", "a" * (SIZE // 2)),
    "names in a template that do not end": lambda: JSRegex.compile("(?<n>a)").replace("a", "$<" * SIZE),
    "capitals": lambda: underscore("A" * SIZE),
}


@pytest.mark.parametrize("case", CASES)
def test_takes_linear_time(case: str) -> None:
    with linear_time():
        CASES[case]()


def test_a_deep_value_is_not_copied_at_each_level() -> None:
    value: object = [1] * 20_000
    for _ in range(350):
        value = [value]
    with linear_time():
        assert len(json_stringify(value, 4)) > 20_000 * 350 * 4


@given(st.text("ab", min_size=1, max_size=6), st.integers(1, 3), st.text("ab", max_size=60))
def test_occurrences_are_all_places(root: str, times: int, text: str) -> None:
    wanted = root * times
    text += wanted + root + text
    assert list(occurrences(text, wanted)) == [at for at in range(len(text)) if text.startswith(wanted, at)]
    assert list(occurrences(text, wanted, 3)) == [at for at in range(3, len(text)) if text.startswith(wanted, at)]
