"""When turns and builds run: turns in a short fair queue, short builds at once and long ones in threads."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from contextvars import copy_context
from functools import partial
from typing import TypeVar

from tavernkit._values import LRUCache
from tavernkit._workers import seconds_waited
from tavernkit.server.errors import ServiceError
from tavernkit.server.limits import BUILD_THREADS, KNOWN_BUILDS, SHORT_BUILD_SECONDS, WAITING_BUILD_THREADS

Built = TypeVar("Built")

UNSURE = -0.5
"""Stands for the time of a build that was short and now seems long: the machine may just be busy."""


class Admission:
    """Admits a limited number of turns. Waiting turns take turns by key: one busy client cannot block others."""

    def __init__(self, *, running: int, waiting: int, seconds: float) -> None:
        """Make a queue.

        Args:
            running: How many may run at once.
            waiting: How many may wait.
            seconds: How long a turn may wait.
        """
        self._free = running
        self._most = waiting
        self._seconds = seconds
        self._queues: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    @property
    def waiting(self) -> int:
        """The number of waiting turns."""
        return sum(map(len, self._queues.values()))

    @asynccontextmanager
    async def slot(self, owner: str) -> AsyncGenerator[None]:
        """Hold a slot inside the ``with`` block; raises ServiceError 503 if too many are waiting."""
        await self._enter(owner)
        try:
            yield
        finally:
            self._leave()

    async def _enter(self, owner: str) -> None:
        if self._free > 0 and not self._queues:
            self._free -= 1
            return
        if self.waiting >= self._most:
            self._make_room(owner)
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queues.setdefault(owner, deque()).append(place)
        try:
            await asyncio.wait_for(asyncio.shield(place), self._seconds)
        except TimeoutError:
            if self._forget(owner, place):
                raise self._overload_error() from None
            place.result()  # admitted just then, or rejected to make room
        except BaseException:
            if not self._forget(owner, place) and not place.cancelled() and place.exception() is None:
                self._leave()  # admitted just when the client gave up
            raise

    def _leave(self) -> None:
        self._free += 1
        while self._queues and self._free > 0:
            owner, places = self._queues.popitem(last=False)
            place = places.popleft()
            if places:
                self._queues[owner] = places  # after the others
            if not place.done():
                self._free -= 1
                place.set_result(None)

    def _make_room(self, owner: str) -> None:
        """Reject the last waiting turn of the key with the most waiting turns; that may be the new one."""
        busiest = max(self._queues, key=lambda each: len(self._queues[each]), default=owner)
        if len(self._queues.get(busiest, ())) <= len(self._queues.get(owner, ())) + 1:
            raise self._overload_error()
        self._queues[busiest].pop().set_exception(self._overload_error())

    def _forget(self, owner: str, place: asyncio.Future[None]) -> bool:
        places = self._queues.get(owner, deque())
        if place not in places:
            return False
        places.remove(place)
        if not places:
            del self._queues[owner]
        return True

    def _overload_error(self) -> ServiceError:
        return ServiceError(503, "the server is overloaded", code="overloaded", retry_after=5)


class BuildExecutor:
    """Runs builds. With a busy event loop, a thread waits longer for its turn than a short build takes."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(BUILD_THREADS, thread_name_prefix="tavernkit-build")
        self._waiting = ThreadPoolExecutor(WAITING_BUILD_THREADS, thread_name_prefix="tavernkit-waiting-build")
        self._seconds: LRUCache[Hashable, float] = LRUCache(KNOWN_BUILDS)

    async def run(self, kind: Hashable, build: Callable[[], Built]) -> Built:
        """Build at once if the last build of the same kind was short, else in a thread."""
        known = self._seconds.get(kind)
        if known is not None and known <= SHORT_BUILD_SECONDS:
            return self._timed(kind, build) if known == UNSURE else self._at_once(kind, build)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._executor, self._timed, kind, build)

    async def run_waiting(self, build: Callable[[], Built]) -> Built:
        """Build in a thread that may wait for an upstream: not in one that others, or the upstream's call, need."""
        in_context = partial(copy_context().run, build)  # whose request and trace the upstream's call is
        return await asyncio.get_running_loop().run_in_executor(self._waiting, in_context)

    def close(self) -> None:
        """Refuse new builds."""
        for executor in (self._executor, self._waiting):
            executor.shutdown(wait=False, cancel_futures=True)

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
