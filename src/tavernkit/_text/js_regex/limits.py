"""The limits of regular expressions: of one call, and of the many calls of a scan or a build together."""

from __future__ import annotations

from time import perf_counter

from tavernkit._workers import processor_clock

DEFAULT_TIMEOUT = 0.1
"""Seconds of processor time that a call may take before it counts as no match."""

STEPS_PER_SECOND = 50_000_000
"""Engine steps that certainly fit into a second; the slowest kind takes 4 ns, most take 1 or 2."""

SUBJECT_CACHE_SIZE = 16
"""How many non-ASCII texts are cached in the engine's form, because many expressions run on one text."""

MEASURES_CACHE_SIZE = 64
"""How many texts are cached with their measures and the expressions that are fast on them."""

MEASURED_LENGTH = 4_000_000
"""The total characters of these texts."""

BOUNDS_CACHE_SIZE = 1024
"""How many fast expressions are recorded per text."""

KEPT_LENGTH = 16_384
"""The maximum length of the last searched text that an expression keeps."""

COMPILE_CACHE_SIZE = 2048
"""How many compiled expressions are kept."""

MAX_DEPTH = 50
"""How deep groups, or classes of ``v`` mode, may be nested: each level takes up to eight calls of Python."""

MAX_SOURCE_LENGTH = 30_000
"""How many UTF-16 units a pattern may have: reading it takes linear time, and is not part of a call's time limit."""

MAX_PARTS = 4_000
"""How many groups, classes, assertions and repetitions a pattern may have: they take longer to read than characters."""

MAX_WRITTEN_LENGTH = 200_000
"""The maximum total length of classes as written for the engine, with case variants."""

MAX_JUDGED_LENGTH = 10_000
"""The maximum length of a pattern whose cost is computed; a longer one always runs in a worker process."""

MAX_JUDGED_PARTS = 500
"""How many groups, classes, assertions and repetitions such a pattern may have."""

MAX_PROPERTIES = 16
"""How many ``\\p{…}`` a pattern that is compiled in this process may have: with ``i`` each takes 0.3 ms and 15 KB. A
pattern with more, or with a property of strings (1 ms and 600 KB each), is compiled and run in a worker process."""

LARGE_LENGTH = 2_000
"""The maximum length of a pattern in the main cache; only a few larger ones are cached."""

LARGE_CACHE_SIZE = 64
"""How many of these are cached."""

MAX_REPLACED_LENGTH = 20_000_000
"""The maximum length of a text after a template replacement; a text that would be longer is left unchanged."""

GIVEN_UP_CACHE_SIZE = 128
"""How many timed-out calls are remembered, so that they are not tried again at once."""

GIVEN_UP_SECONDS = 60.0
"""How long they are remembered."""


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
