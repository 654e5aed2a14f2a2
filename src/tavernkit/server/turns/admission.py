"""Limits how many turns run at once: others wait in a short queue that is fair between keys, or get 503."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from tavernkit.server.errors import ServiceError


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
