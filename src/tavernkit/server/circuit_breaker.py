"""Leaves a failing upstream alone for a while."""

from __future__ import annotations

import time
from collections.abc import Callable

from tavernkit.server.limits import BREAKER_FAILURES, BREAKER_SECONDS


class CircuitBreaker:
    """Opens after failures in a row; after a pause one request may try, and its outcome decides."""

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
        """Seconds until a request may be sent; nought lets it go now, and counts on ``record()`` afterwards."""
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
        """Take the outcome of a request."""
        self._trying = False
        if ok:
            self._failed = 0
            return
        self._failed += 1
        if self._failed >= self._allowed:
            self._open_until = self._clock() + self._seconds

    def release(self) -> None:
        """A request ended without telling anything about the upstream (the client left)."""
        self._trying = False

    @property
    def is_open(self) -> bool:
        """True if requests are turned away now."""
        return self._failed >= self._allowed and self._open_until > self._clock()
