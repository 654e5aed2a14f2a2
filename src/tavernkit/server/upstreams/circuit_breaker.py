"""Stops requests to a failing upstream for a while."""

from __future__ import annotations

import time
from collections.abc import Callable

from tavernkit.server.limits import BREAKER_FAILURES, BREAKER_SECONDS


class CircuitBreaker:
    """Opens after several failures in a row; after a pause, one request is let through, and its outcome decides."""

    def __init__(
        self,
        *,
        failures: int = BREAKER_FAILURES,
        seconds: float = BREAKER_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._allowed = failures
        self._seconds = seconds
        self._clock = clock
        self._failed = 0
        self._open_until = 0.0
        self._trying = False

    def wait(self) -> float:
        """Return the seconds until a request may be sent; 0 means now, and then ``record()`` must follow."""
        if self._failed < self._allowed:
            return 0.0
        left = self._open_until - self._clock()
        if left > 0:
            return left
        if self._trying:
            return min(self._seconds, 1.0)
        self._trying = True
        return 0.0

    def record(self, *, ok: bool) -> None:
        """Record the outcome of a request."""
        self._trying = False
        if ok:
            self._failed = 0
            return
        self._failed += 1
        if self._failed >= self._allowed:
            self._open_until = self._clock() + self._seconds

    def release(self) -> None:
        """Record that a request ended without an outcome, because the client disconnected."""
        self._trying = False

    @property
    def is_open(self) -> bool:
        """True if requests are refused now."""
        return self._failed >= self._allowed and self._open_until > self._clock()
