from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType

import pytest

from tavernkit import _values as values
from tavernkit._values import LazySequence, LRUCache, deep_merge, freeze, freeze_object, shown, thaw, thaw_object
from tavernkit.errors import LimitExceededError

DEEP = 20_000
"""Far more levels than Python functions may call themselves."""


def nested(depth: int) -> object:
    value: object = "bottom"
    for level in range(depth):
        value = {"in": value, "n": level} if level % 2 else [level, value]
    return value


def bottom(value: object) -> tuple[int, object, set[type]]:
    """How deep a nested value goes, what is there, and what it is made of."""
    depth, kinds = 0, set[type]()
    while not isinstance(value, str):
        kinds.add(type(value))
        value = value["in"] if isinstance(value, (dict, MappingProxyType)) else value[1]  # pyright: ignore[reportIndexIssue]
        depth += 1
    return depth, value, kinds


@pytest.mark.parametrize("depth", [2, DEEP])
def test_values_of_any_depth_are_frozen_and_thawed(depth: int) -> None:
    frozen = freeze(nested(depth))
    assert bottom(frozen) == (depth, "bottom", {MappingProxyType, tuple})
    assert bottom(thaw(frozen)) == (depth, "bottom", {dict, list})
    assert bottom(thaw_object(freeze_object({"in": nested(depth)}))) == (depth + 1, "bottom", {dict, list})


def test_deep_values_are_copied_as_shallow_ones_are() -> None:
    handle = object()
    odd = {1: [(), {}, None, True, 1.5, handle], "keys": (MappingProxyType({"a": [1]}),)}
    assert freeze(odd) == {"1": ((), {}, None, True, 1.5, handle), "keys": ({"a": (1,)},)}
    deep = freeze([odd, nested(DEEP)])
    assert isinstance(deep, tuple)
    assert deep[0] == freeze(odd)
    thawed = thaw([odd, nested(DEEP)])
    assert isinstance(thawed, list)
    assert thawed[0] == thaw(odd) == {"1": [[], {}, None, True, 1.5, handle], "keys": [{"a": [1]}]}


@pytest.mark.parametrize("copy", [freeze, thaw])
def test_a_value_that_holds_itself_is_refused(
    copy: Callable[[object], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(values, "MAX_NESTING", 3_000)
    value: list[object] = []
    value.append({"again": value})
    with pytest.raises(LimitExceededError, match="nested deeper than 3000 levels"):
        copy(value)


def test_mappings_of_any_depth_are_merged() -> None:
    left: dict[str, object] = {"left": 1, "both": 1}
    right: dict[str, object] = {"right": 2, "both": 2}
    for _ in range(DEEP):
        left, right = {"in": left, "left": 1}, {"in": right, "list": [2]}
    merged = deep_merge(left, right)
    assert merged.keys() == {"in", "left", "list"}
    for _ in range(DEEP):
        assert isinstance(merged, dict)
        merged = merged["in"]
    assert merged == {"left": 1, "both": 2, "right": 2}


def test_the_beginning_of_any_value_can_be_shown() -> None:
    assert shown({"a": ["x" * 100]}) == "{'a': ['" + "x" * 52
    assert shown("abc", 3) == "'ab"
    assert shown(nested(5 * DEEP)) == "a value that is nested too deeply"


def test_merging_changes_neither_mapping() -> None:
    left, right = {"a": {"x": 1}, "l": [1]}, {"a": {"y": 2}, "l": [2], "a2": {}}
    merged = deep_merge(left, right)
    assert merged == {"a": {"x": 1, "y": 2}, "l": [2], "a2": {}}
    assert (left, right) == ({"a": {"x": 1}, "l": [1]}, {"a": {"y": 2}, "l": [2], "a2": {}})


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


def test_a_cache_may_be_bounded_by_what_its_values_weigh() -> None:
    cache: LRUCache[str, str] = LRUCache(10, lambda key, value: len(key) + len(value))
    for key in "abc":
        cache.put(key, "12")
    assert cache.get("a") == "12"
    cache.put("d", "12")
    assert [cache.get(key) for key in "abcd"] == ["12", None, "12", "12"]
    cache.put("a", "1234567")
    assert [cache.get(key) for key in "abcd"] == ["1234567", None, None, None]
    cache.put("a", "1")
    cache.put("b", "12345")
    assert len(cache) == 2
    cache.put("c", "12345678901")
    assert len(cache) == 0
    cache.put("d", "1")
    cache.clear()
    cache.put("e", "123456789")
    assert cache.get("e") == "123456789"


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
