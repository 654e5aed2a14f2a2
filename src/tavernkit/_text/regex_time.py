"""Limits the processor time of many regular expressions together."""

from __future__ import annotations

from time import perf_counter

from tavernkit._workers.clock import processor_clock

MAX_REGEX_SECONDS = 30.0
"""Seconds of processor time for the regex keys of a lore scan, and for the regex scripts of a build. Each call has a
limit of its own, but there may be thousands just below it."""

ORDINARY_SEARCH = 0.00002
"""Seconds that each search may take besides: an ordinary one takes less, so that any number of them is allowed even on
a slow machine."""

_CALLS_BETWEEN_LOOKS = 16
"""Reading the clock takes as long as a quick search."""


QUICK = 0.001
"""Seconds between two looks at the clock. What takes less cannot have used more processor time than that."""


class RegexTime:
    """The processor time of the searches of one scan or build, including that of worker processes.

    Everything between two searches counts as well, unless ``pause()`` is called. Until something is not quick, the
    wall clock is read instead of the processor's, which takes ten times as long to read.
    """

    __slots__ = ("_calls", "_clock", "_looked_at", "_spent")

    def __init__(self) -> None:
        self._spent = 0.0
        self._calls = 0
        self._clock = perf_counter
        self._looked_at: float | None = None

    def is_left(self) -> bool:
        """Return True if there is time for another search."""
        self._calls += 1
        if self._looked_at is None:
            self._looked_at = self._clock()
        elif not self._calls % _CALLS_BETWEEN_LOOKS:
            self._look(self._looked_at)
        return self._spent <= MAX_REGEX_SECONDS + self._calls * ORDINARY_SEARCH

    def pause(self) -> None:
        """Do not count what happens until the next search."""
        if self._looked_at is not None:
            self._look(self._looked_at)
            self._looked_at = None

    def _look(self, before: float) -> None:
        now = self._clock()
        passed = now - before
        if passed > QUICK and self._clock is perf_counter:
            # The machine may only have been busy: from now on the processor's clock decides.
            self._clock = processor_clock
            passed, now = QUICK, processor_clock()
        self._looked_at = now
        self._spent += passed
