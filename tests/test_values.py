from __future__ import annotations

import pytest

from tavernkit.values import LazySequence, LRUCache


def test_the_least_recently_used_value_goes_first() -> None:
    cache: LRUCache[str, int] = LRUCache(2)
    cache.put("a", 1)
    cache.put("b", 2)
    assert cache.get("a") == 1
    cache.put("c", 3)
    assert (cache.get("a"), cache.get("b"), cache.get("c"), len(cache)) == (1, None, 3, 2)


def test_a_value_is_made_once_until_it_is_forgotten() -> None:
    cache: LRUCache[str, list[int]] = LRUCache(1)
    made = cache.get_or_make("a", list)
    assert cache.get_or_make("a", list) is made
    cache.clear()
    assert len(cache) == 0
    assert cache.get_or_make("a", list) is not made


def test_a_cache_must_hold_something() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        LRUCache(0)


def test_a_lazy_sequence_makes_items_when_they_are_asked_for() -> None:
    made: list[int] = []

    def make(place: int) -> int:
        made.append(place)
        return place * place

    squares = LazySequence(5, make)
    assert len(squares) == 5
    assert made == []
    assert squares[-1] == 16
    assert squares[1:3] == [1, 4]
    assert made == [4, 1, 2]
    assert list(squares) == [0, 1, 4, 9, 16]
    with pytest.raises(IndexError):
        squares[5]
