"""JavaScript's ``Array#sort`` as in V8, even with inconsistent comparers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def sort_by(items: Sequence[T], compare: Callable[[T, T], float]) -> list[T]:
    """Sort; ``compare`` is asked for the same pairs in the same order as in V8 while a list has fewer than 64 items.

    So a list "shuffled" by a random comparer comes out as in a browser, and on every version of Python alike. An answer
    that is not a number counts as 0.
    """
    run = _first_run(items, compare)
    for item in items[len(run) :]:
        low, high = 0, len(run)
        while low < high:
            middle = (low + high) // 2
            if compare(item, run[middle]) < 0:
                high = middle
            else:
                low = middle + 1
        run.insert(low, item)
    return run


def _first_run(items: Sequence[T], compare: Callable[[T, T], float]) -> list[T]:
    """Return the leading items that are already in order, or in strictly reverse order and then reversed."""
    if len(items) < 2:
        return list(items)
    descending = compare(items[1], items[0]) < 0
    end = 2
    while end < len(items) and (compare(items[end], items[end - 1]) < 0) == descending:
        end += 1
    return list(reversed(items[:end])) if descending else list(items[:end])
