"""Numbers of a file that are written as text."""

from __future__ import annotations

import pytest

from tavernkit._text.json_reader import as_number


@pytest.mark.parametrize(
    ("text", "number"), [("12", 12), (" 4.0\ufeff", 4), ("-1.5e1", -15), (".5", 0.5), ("0x10", 16), ("9" * 20, 10**20)]
)
def test_text_is_a_number_where_javascript_reads_one(text: str, number: float) -> None:
    assert as_number(text) == number


@pytest.mark.parametrize("text", ["", " \n", "1_0", "\u0663", "\uff11", "1\x85", "\x1c1", "1e999", "nan", "Infinity"])
def test_other_text_is_not_a_number(text: str) -> None:
    assert as_number(text) is None


@pytest.mark.parametrize("value", [None, True, [1], float("nan"), float("inf"), 10**400])
def test_values_that_are_not_finite_numbers_are_none(value: object) -> None:
    assert as_number(value) is None


def test_whole_numbers_are_integers() -> None:
    assert [type(as_number(value)) for value in (4.0, "4.0", 4, 4.5)] == [int, int, int, float]
