"""Keeping regular expressions within their time: those that certainly are run at once, others in a worker process."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence

from tavernkit.text.js_regex import limits
from tavernkit.text.js_regex.cost import AnyText, CostModel
from tavernkit.text.js_regex.engine import Engine
from tavernkit.text.js_regex.match import Found, FoundSpans
from tavernkit.text.js_regex.measures import measure
from tavernkit.text.js_regex.nodes import Pattern
from tavernkit.values import LRUCache

_PROBES = tuple(2**power for power in range(3, 21))
_given_up: LRUCache[tuple[str, str, bytes], tuple[float, float]] = LRUCache(limits.GIVEN_UP_CACHE_SIZE)


class GaveUpError(Exception):
    """A match was given up; the message says why."""


class Guard:
    """Decides for one pattern which calls are certain to be quick."""

    __slots__ = ("_model", "_pattern", "_safe_length")

    def __init__(self, pattern: Pattern) -> None:
        self._pattern = pattern
        self._model: CostModel | None = None
        self._safe_length = -1

    def is_quick(self, text: str, timeout: float) -> bool:
        """Tell whether the pattern certainly takes no longer than ``timeout`` seconds on a text."""
        if len(text) <= self._safe_length and timeout >= limits.DEFAULT_TIMEOUT:
            return True
        model = self._model
        if model is None:
            model = CostModel(self._pattern)
            self._safe_length = _safe_length(model)
            self._model = model
            if len(text) <= self._safe_length and timeout >= limits.DEFAULT_TIMEOUT:
                return True
        return model.steps(measure(text)) <= timeout * limits.STEPS_PER_SECOND


def _safe_length(model: CostModel) -> int:
    """Return a length up to which the pattern is quick on any text at all."""
    allowed = limits.DEFAULT_TIMEOUT * limits.STEPS_PER_SECOND
    safe = 0
    for length in _PROBES:
        if model.steps(AnyText(length)) > allowed:
            break
        safe = length
    return safe


def run_guarded(engine: Engine, text: str, timeout: float, *, everything: bool) -> Sequence[Found]:
    """Find the first match, or all, in a worker process; raises :class:`GaveUpError`."""
    from tavernkit.text.js_regex.workers import OutOfTimeError, WorkerError, pool

    key = (engine.source, engine.flags, hashlib.blake2b(text.encode(), digest_size=16).digest())
    known = _given_up.get(key)
    if known is not None and known[0] >= timeout and time.monotonic() - known[1] < limits.GIVEN_UP_SECONDS:
        raise GaveUpError(f"took longer than {timeout * 1000:g} ms a moment ago")
    try:
        offsets = pool.run(engine, text, timeout, everything=everything)
    except OutOfTimeError:
        _given_up.put(key, (timeout, time.monotonic()))
        raise GaveUpError(f"took longer than {timeout * 1000:g} ms") from None
    except WorkerError as error:
        raise GaveUpError(f"could not be run safely: {error}") from error
    width = 2 * (engine.group_count + 1)
    return [FoundSpans(offsets[at : at + width]) for at in range(0, len(offsets), width)]
