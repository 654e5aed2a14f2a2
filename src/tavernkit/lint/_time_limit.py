"""How long the check of one file may take: texts and expressions are tried out, and a file may have thousands."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

MAX_SECONDS = 30.0
"""Time for one file; what is not tried by then is skipped."""


class TimeLimit:
    """The time that is left for a file, and how many things were skipped because it ran out."""

    __slots__ = ("_deadline", "skipped")

    def __init__(self) -> None:
        self._deadline = time.monotonic() + MAX_SECONDS
        self.skipped = 0

    def has_time(self) -> bool:
        """Return True if there is time for one more thing; if not, count it as skipped."""
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
    """Return True if there is time to try one more thing; outside of a file there always is."""
    current = _current.get()
    return current is None or current.has_time()
