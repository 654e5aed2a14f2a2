"""Results of scripts that are not made again."""

from __future__ import annotations

import threading
from collections.abc import Hashable


class ScriptResults:
    """Results by what they were made of. A full cache forgets its oldest one, however often it was asked for."""

    def __init__(self, max_size: int) -> None:
        self._max_size = max_size
        self._results: dict[Hashable, str] = {}
        self._lock = threading.Lock()

    def get(self, key: Hashable) -> str:
        """A known result; an empty one counts as unknown, as in RisuAI."""
        with self._lock:
            return self._results.get(key, "")

    def put(self, key: Hashable, result: str) -> None:
        """Remember a result."""
        with self._lock:
            self._results[key] = result
            if len(self._results) > self._max_size:
                del self._results[next(iter(self._results))]
