"""Expectations were taken from V8 (Node.js 20)."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tavernkit._text.js_values.convert import sort_by
from tavernkit.risu_ai._js import sort_descending


def lehmer(seed: int) -> Callable[[], float]:
    def draw() -> float:
        nonlocal seed
        seed = seed * 16807 % 2147483647
        return seed / 2147483647

    return draw


SHUFFLED = [
    (1, [0]),
    (2, [1, 0]),
    (3, [1, 2, 0]),
    (5, [4, 1, 0, 3, 2]),
    (9, [6, 2, 4, 1, 8, 3, 7, 5, 0]),
    (20, [8, 1, 5, 12, 19, 17, 6, 13, 0, 16, 15, 7, 9, 18, 3, 10, 2, 4, 14, 11]),
]


@pytest.mark.parametrize(("count", "shuffled"), SHUFFLED)
def test_a_random_comparer_shuffles_as_in_v8(count: int, shuffled: list[int]) -> None:
    random = lehmer(count + 1)
    assert sort_by(range(count), lambda _a, _b: random() - 0.5) == shuffled


def test_the_second_item_is_compared_with_the_first() -> None:
    asked: list[tuple[int, int]] = []

    def compare(a: int, b: int) -> float:
        asked.append((a, b))
        return a - b

    assert sort_by([3, 1, 2, 0], compare) == [0, 1, 2, 3]
    assert asked == [(1, 3), (2, 1), (2, 3), (2, 1), (0, 2), (0, 1)]


@pytest.mark.parametrize(
    ("numbers", "order"),
    [
        ([1, math.nan, 5], [0, 1, 2]),
        ([1, 5, math.nan], [1, 0, 2]),
        ([math.nan, 1, 5], [0, 2, 1]),
        ([2, 1, math.nan, 3], [0, 1, 2, 3]),
    ],
)
def test_what_is_no_number_leaves_its_neighbours_as_v8_does(numbers: list[float], order: list[int]) -> None:
    assert sort_descending(range(len(numbers)), lambda index: numbers[index]) == order


@given(st.lists(st.tuples(st.integers(0, 5), st.integers()), max_size=80))
def test_a_comparer_that_is_consistent_gives_a_stable_order(items: list[tuple[int, int]]) -> None:
    expected = sorted(items, key=lambda item: -item[0])
    assert sort_by(items, lambda a, b: b[0] - a[0]) == expected
    assert sort_descending(items, lambda item: item[0]) == expected
