"""How long the check of one file may take: texts and expressions are tried out, and a file may have thousands."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

MAX_SECONDS = 30.0
"""Time for one file; what is not tried out by then is left out."""


class Patience:
    """The time that is left for a file, and how many things were left out for want of it."""

    __slots__ = ("_deadline", "left_out")

    def __init__(self) -> None:
        self._deadline = time.monotonic() + MAX_SECONDS
        self.left_out = 0

    def may_try(self) -> bool:
        """Tell whether there is time for one more thing; if not, it counts as left out."""
        if time.monotonic() < self._deadline:
            return True
        self.left_out += 1
        return False


_current: ContextVar[Patience | None] = ContextVar("lint_patience", default=None)


@contextmanager
def patience() -> Generator[Patience]:
    """Let everything that is checked inside share the time for one file."""
    given = Patience()
    token = _current.set(given)
    try:
        yield given
    finally:
        _current.reset(token)


def may_try() -> bool:
    """Tell whether there is time to try out one more thing; outside of files there always is."""
    current = _current.get()
    return current is None or current.may_try()
