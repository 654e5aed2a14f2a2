"""A cache that is bounded by what its values weigh, since one may be a thousand times another."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class WeighedCache(Generic[K, V]):
    """Keeps the most recently used values up to a weight in all. Thread-safe. A value with a known key is not taken."""

    def __init__(self, max_weight: int, weigh: Callable[[K, V], int]) -> None:
        self._max_weight = max_weight
        self._weigh = weigh
        self._weight = 0
        self._items: OrderedDict[K, V] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: K) -> V | None:
        """Return a value and mark it as used, or nothing."""
        with self._lock:
            value = self._items.get(key)
            if value is not None:
                self._items.move_to_end(key)
            return value

    def put(self, key: K, value: V) -> None:
        """Store a value; those that were not used for longest go when there is no room."""
        with self._lock:
            if key in self._items:
                return
            self._items[key] = value
            self._weight += self._weigh(key, value)
            while self._weight > self._max_weight:
                self._weight -= self._weigh(*self._items.popitem(last=False))

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._items.clear()
            self._weight = 0

    def __len__(self) -> int:
        with self._lock:
            return len(self._items)
