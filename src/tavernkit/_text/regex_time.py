"""Limits the processor time of many regular expressions together."""

from __future__ import annotations

from tavernkit._workers.clock import processor_clock

MAX_REGEX_SECONDS = 30.0
"""Seconds of processor time for the regex keys of a lore scan, and for the regex scripts of a build. Each call has a
limit of its own, but there may be thousands just below it."""

ORDINARY_SEARCH = 0.00002
"""Seconds that each search may take besides: an ordinary one takes less, so that any number of them is allowed even on
a slow machine."""

_CALLS_BETWEEN_LOOKS = 16
"""Reading the clock takes as long as a quick search."""


class RegexTime:
    """The processor time of the searches of one scan or build, including that of worker processes.

    Everything between two searches counts as well, unless ``pause()`` is called.
    """

    __slots__ = ("_calls", "_looked_at", "_spent")

    def __init__(self) -> None:
        self._spent = 0.0
        self._calls = 0
        self._looked_at: float | None = None

    def is_left(self) -> bool:
        """Return True if there is time for another search."""
        self._calls += 1
        if self._looked_at is None:
            self._looked_at = processor_clock()
        elif not self._calls % _CALLS_BETWEEN_LOOKS:
            self._look(self._looked_at)
        return self._spent <= MAX_REGEX_SECONDS + self._calls * ORDINARY_SEARCH

    def pause(self) -> None:
        """Do not count what happens until the next search."""
        if self._looked_at is not None:
            self._look(self._looked_at)
            self._looked_at = None

    def _look(self, before: float) -> None:
        self._looked_at = processor_clock()
        self._spent += self._looked_at - before
