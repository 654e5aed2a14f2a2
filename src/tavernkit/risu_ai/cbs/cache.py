"""A cache of compiled texts that is bounded by what they weigh, since one text may be a thousand times another."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

from tavernkit.risu_ai.cbs.compiler import Program

K = TypeVar("K", bound=Hashable)

_NODE_BYTES = 400


class ProgramCache(Generic[K]):
    """Keeps the most recently used programs up to about so many bytes. Thread-safe."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._programs: OrderedDict[K, Program] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: K) -> Program | None:
        """Return a program and mark it as used, or nothing."""
        with self._lock:
            program = self._programs.get(key)
            if program is not None:
                self._programs.move_to_end(key)
            return program

    def put(self, key: K, program: Program) -> None:
        """Store a program; those that were not used for longest go when there is no room."""
        with self._lock:
            if key in self._programs:
                return
            self._programs[key] = program
            self._bytes += _weight(program)
            while self._bytes > self._max_bytes:
                self._bytes -= _weight(self._programs.popitem(last=False)[1])

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._programs.clear()
            self._bytes = 0

    def __len__(self) -> int:
        with self._lock:
            return len(self._programs)


def _weight(program: Program) -> int:
    return program.size * _NODE_BYTES + program.texts + len(program.source)
