"""Runs builds: short ones at once, long ones in threads, so that they do not block the event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from tavernkit._values import LRUCache
from tavernkit._workers.clock import seconds_waited
from tavernkit.server.limits import BUILD_THREADS, KNOWN_BUILDS, SHORT_BUILD_SECONDS

Built = TypeVar("Built")

UNSURE = -0.5
"""Stands for the time of a build that was short and now seems long: the machine may just be busy."""


class BuildExecutor:
    """Runs builds. With a busy event loop, a thread waits longer for its turn than a short build takes."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(BUILD_THREADS, thread_name_prefix="tavernkit-build")
        self._seconds: LRUCache[Hashable, float] = LRUCache(KNOWN_BUILDS)

    async def run(self, kind: Hashable, build: Callable[[], Built]) -> Built:
        """Build at once if the last build of the same kind was short, else in a thread."""
        known = self._seconds.get(kind)
        if known is not None and known <= SHORT_BUILD_SECONDS:
            return self._timed(kind, build) if known == UNSURE else self._at_once(kind, build)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._executor, self._timed, kind, build)

    def close(self) -> None:
        """Refuse new builds."""
        self._executor.shutdown(wait=False, cancel_futures=True)

    def _at_once(self, kind: Hashable, build: Callable[[], Built]) -> Built:
        """Build with a look at the clock on the wall: the thread's own asks the system, which takes longer."""
        started = time.perf_counter()
        try:
            return build()
        finally:
            if time.perf_counter() - started > SHORT_BUILD_SECONDS:
                self._seconds.put(kind, UNSURE)

    def _timed(self, kind: Hashable, build: Callable[[], Built]) -> Built:
        started = _working_time()
        try:
            return build()
        finally:
            self._seconds.put(kind, _working_time() - started)


def _working_time() -> float:
    """Return the processor time of this thread and of its regexes in workers; waiting does not count."""
    return time.thread_time() + seconds_waited()
