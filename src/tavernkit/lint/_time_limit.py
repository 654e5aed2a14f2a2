"""A time limit for checking one file: texts and expressions are executed, and a file may have thousands."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

MAX_SECONDS = 30.0
"""Time for one file; remaining checks are skipped."""


class TimeLimit:
    """The time left for a file, and how many checks were skipped."""

    __slots__ = ("_deadline", "skipped")

    def __init__(self) -> None:
        self._deadline = time.monotonic() + MAX_SECONDS
        self.skipped = 0

    def has_time(self) -> bool:
        """Return True if there is time for another check; if not, count it as skipped."""
        if time.monotonic() < self._deadline:
            return True
        self.skipped += 1
        return False


_current: ContextVar[TimeLimit | None] = ContextVar("lint_time_limit", default=None)


@contextmanager
def time_limit() -> Generator[TimeLimit]:
    """Share the time for one file among everything that is checked inside."""
    limit = TimeLimit()
    token = _current.set(limit)
    try:
        yield limit
    finally:
        _current.reset(token)


def has_time() -> bool:
    """Return True if there is time for another check; without a time limit there always is."""
    current = _current.get()
    return current is None or current.has_time()
