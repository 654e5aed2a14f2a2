"""Remembers token counts."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from typing import TypeAlias

from tavernkit.budget.limits import ESTIMATE_CACHE_CHARACTERS, LONG_TEXT_CHARACTERS

_Key: TypeAlias = "tuple[str | None, str | tuple[bytes, int]]"


class CountCache:
    """The token counts of the texts that were used last, by model; bounded in entries and in characters. Thread-safe.

    Short texts are their own key, which makes a hit as quick as a look into a dict; long ones are known by a digest.
    """

    def __init__(self, max_size: int, max_characters: int = ESTIMATE_CACHE_CHARACTERS) -> None:
        self._max_size = max_size
        self._max_characters = max_characters
        self._characters = 0
        self._counts: OrderedDict[_Key, int] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, model_hint: str | None, text: str) -> int | None:
        """Return the count of a text, or nothing."""
        key = _key(model_hint, text)
        with self._lock:
            count = self._counts.get(key)
            if count is not None:
                self._counts.move_to_end(key)
            return count

    def put(self, model_hint: str | None, text: str, count: int) -> None:
        """Remember the count of a text."""
        key = _key(model_hint, text)
        with self._lock:
            if key not in self._counts:
                self._characters += len(key[1])
            self._counts[key] = count
            while len(self._counts) > self._max_size or self._characters > self._max_characters:
                oldest, _ = self._counts.popitem(last=False)
                self._characters -= len(oldest[1])

    def __len__(self) -> int:
        return len(self._counts)


def _key(model_hint: str | None, text: str) -> _Key:
    if len(text) <= LONG_TEXT_CHARACTERS:
        return model_hint, text
    data = text.encode("utf-8", "surrogatepass")
    return model_hint, (hashlib.blake2b(data, digest_size=16).digest(), len(text))
