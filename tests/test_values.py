from __future__ import annotations

import pytest

from tavernkit.values import LRUCache


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
