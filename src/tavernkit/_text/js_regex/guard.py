"""Keeps regular expressions within their time limit: certainly fast calls run directly, others in a worker process."""

from __future__ import annotations

import hashlib
import struct
import time
from bisect import bisect
from collections.abc import Sequence
from math import inf
from pathlib import Path

from tavernkit._text.js_regex import limits
from tavernkit._text.js_regex.cost import AnyText, CostModel
from tavernkit._text.js_regex.match import Engine, Found, FoundSpans
from tavernkit._text.js_regex.measures import KnownQuick, PatternMeasures, known_measures, measure
from tavernkit._text.js_regex.nodes import Pattern
from tavernkit._text.js_regex.worker import REQUEST
from tavernkit._values import LRUCache
from tavernkit._workers.job import Job

_given_up: LRUCache[tuple[str, str, bytes], tuple[float, float]] = LRUCache(limits.GIVEN_UP_CACHE_SIZE)
_MOST_DOUBLINGS = 20
JOB = Job(Path(__file__).with_name("worker.py"))
"""The job of worker processes for regular expressions."""


class GaveUpError(Exception):
    """A search was stopped; the message says why."""


class Guard:
    """Decides for one pattern which calls are certainly fast: first by length alone, then by a closer look."""

    __slots__ = ("_from_one_place", "_judged", "_model", "_pattern", "known")

    def __init__(self, pattern: Pattern, *, judged: bool = True) -> None:
        self._pattern = pattern
        self._judged = judged
        self._model: CostModel | None = None
        self._from_one_place: dict[int, float] = {}
        self.known = KnownQuick(length=0 if judged else -1)
        """The texts that are known to be fast."""

    def is_known_quick(self, text: str, timeout: float) -> bool:
        """Return True if ``is_quick()`` is already known to be true; this costs almost nothing."""
        if timeout >= limits.DEFAULT_TIMEOUT and (text is self.known.text or len(text) <= self.known.length):
            return True
        measures = known_measures(text)
        return measures is not None and measures.bounds.get(self.known, inf) <= timeout * limits.STEPS_PER_SECOND

    def is_quick(self, text: str, timeout: float) -> bool:
        """Return True if the pattern certainly takes no longer than ``timeout`` seconds on a text."""
        if not self._judged:
            return False
        if self._model is None:
            self._model = CostModel(self._pattern)
            self.known.length = _safe_length(self._model)
        if self.is_known_quick(text, timeout):
            return True
        allowed = timeout * limits.STEPS_PER_SECOND
        if (len(text) + 1) * self._model.head > allowed:
            return False
        measures = measure(text)
        steps = self._steps_by_starts(self._model, text)
        if steps > allowed:
            steps = self._model.steps(PatternMeasures(measures, self._model.alphabet))
        if steps > allowed:
            return False
        measures.keep_bound(self.known, steps)
        return True

    def _steps_by_starts(self, model: CostModel, text: str) -> float:
        """Bound the steps by counting the characters that a match can begin with, if they are few."""
        if not model.first_characters:
            return inf
        starts = sum([text.count(character) for character in model.first_characters])
        return (len(text) + 1) * model.head + starts * self._steps_from_one_place(model, len(text))

    def _steps_from_one_place(self, model: CostModel, length: int) -> float:
        doublings = length.bit_length()
        steps = self._from_one_place.get(doublings)
        if steps is None:
            steps = self._from_one_place[doublings] = model.steps_from_one_place(AnyText(1 << doublings))
        return steps


def _safe_length(model: CostModel) -> int:
    """Return a length up to which the pattern is fast on any text: a power of two, or None."""
    allowed = limits.DEFAULT_TIMEOUT * limits.STEPS_PER_SECOND
    doublings = bisect(range(_MOST_DOUBLINGS), 0, key=lambda power: model.steps(AnyText(1 << power)) > allowed)
    return 1 << (doublings - 1) if doublings else 0


def run_guarded(engine: Engine, text: str, timeout: float, *, everything: bool) -> Sequence[Found]:
    """Find the first match, or all, in a worker process that may take ``timeout`` seconds of processor time.

    Raises ``GaveUpError``.
    """
    data = text.encode()
    key = (engine.source, engine.flags, hashlib.blake2b(data, digest_size=16).digest())
    known = _given_up.get(key)
    budget = f"{timeout * 1000:g} ms"
    if known is not None and known[0] >= timeout and time.monotonic() - known[1] < limits.GIVEN_UP_SECONDS:
        raise GaveUpError(f"took longer than {budget}")
    from tavernkit._workers import JobFailedError, OutOfTimeError, StuckError, WorkerError, note_degraded
    from tavernkit._workers.pool import pool

    try:
        reply = pool.run(JOB, _payload(engine, data, everything=everything), timeout)
    except OutOfTimeError:
        _given_up.put(key, (timeout, time.monotonic()))
        raise GaveUpError(f"took longer than {budget}") from None
    except StuckError as error:
        note_degraded(f"a regex {error}")
        raise GaveUpError(f"was stopped because the machine is too busy ({error})") from None
    except (WorkerError, JobFailedError) as error:
        raise GaveUpError(f"could not be run safely: {error}") from error
    offsets = struct.unpack(f"<{len(reply) // 8}q", reply)
    width = 2 * (engine.group_count + 1)
    return [FoundSpans(offsets[at : at + width]) for at in range(0, len(offsets), width)]


def _payload(engine: Engine, text: bytes, *, everything: bool) -> bytes:
    source, flags = engine.source.encode(), engine.flags.encode()
    sizes = len(source), len(flags), len(text)
    return REQUEST.pack(*sizes, engine.first_group, engine.group_count + 1, everything) + source + flags + text
