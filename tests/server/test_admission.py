"""Who is let in when there is too much to do."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from tavernkit.server.errors import ServiceError
from tavernkit.server.turns.scheduling import Admission
from tavernkit.testing import ScriptedModel
from tests.server.conftest import StartApp


class Room:
    """Clients of an admission: they come, and leave when told to."""

    def __init__(self, **limits: Any) -> None:
        self.admission = Admission(**{"running": 1, "waiting": 4, "seconds": 30, **limits})
        self.order: list[str] = []
        self.tasks: list[asyncio.Task[None]] = []
        self._next = asyncio.Semaphore(0)

    async def come(self, *owners: str) -> None:
        for owner in owners:
            self.tasks.append(asyncio.create_task(self._stay(owner)))
            await asyncio.sleep(0)

    async def _stay(self, owner: str) -> None:
        async with self.admission.slot(owner):
            self.order.append(owner)
            await self._next.acquire()

    async def all_done(self) -> list[Any]:
        for _ in self.tasks:
            self._next.release()
        return await asyncio.gather(*self.tasks, return_exceptions=True)


async def test_keys_are_served_in_turn() -> None:
    room = Room()
    await room.come("a", "a", "a", "b", "c")
    assert (room.order, room.admission.waiting) == (["a"], 4)
    await room.all_done()
    assert room.order == ["a", "a", "b", "c", "a"]
    assert room.admission.waiting == 0


async def test_whoever_comes_too_late_is_told_to_come_back() -> None:
    room = Room(waiting=2)
    await room.come("a", "a", "a", "a")
    outcome = await room.all_done()
    refused = outcome[3]
    assert isinstance(refused, ServiceError)
    assert (refused.status, refused.code, refused.retry_after) == (503, "overloaded", 5)
    assert room.order == ["a"] * 3


async def test_a_busy_key_makes_room_for_others() -> None:
    room = Room(waiting=3)
    await room.come("a", "a", "a", "a", "b")
    outcome = await room.all_done()
    assert [isinstance(each, ServiceError) for each in outcome] == [False, False, False, True, False]
    assert room.order == ["a", "a", "b", "a"]


async def test_nobody_waits_for_ever_and_nobody_who_left_is_let_in() -> None:
    room = Room(seconds=0.01)
    await room.come("a", "b")
    with pytest.raises(ServiceError):
        await room.tasks[1]
    other = Room()
    await other.come("a", "b", "c")
    other.tasks[1].cancel()
    await other.all_done()
    assert other.order == ["a", "c"]
    async with other.admission.slot("d"):  # every place was given back
        assert other.admission.waiting == 0
    await room.all_done()


async def test_one_admitted_just_when_its_time_is_over_gives_its_place_back() -> None:
    room = Room(seconds=0.01)
    await room.come("a", "b")
    asyncio.get_running_loop().call_later(0.005, room._next.release)
    time.sleep(0.02)  # noqa: ASYNC251  # both timers are over at once: "a" leaves right before "b" hears of its own
    await room.tasks[0]
    await room.all_done()
    async with room.admission.slot("c"):
        assert room.admission.waiting == 0


async def test_turns_above_the_limit_get_503(start: StartApp) -> None:
    gate, begun = asyncio.Event(), asyncio.Event()

    class Slow(ScriptedModel):
        async def send(self, request: Any, **options: Any) -> Any:
            begun.set()
            await gate.wait()
            return await super().send(request, **options)

    body = {"model": "aria", "messages": [{"role": "user", "content": "Hi"}]}
    async with start(Slow("one", "two"), max_turns=1, max_waiting=1) as client:
        running = [asyncio.create_task(client.post("/v1/chat/completions", json=body)) for _ in range(3)]
        await begun.wait()
        done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
        refused = done.pop().result()
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
        gate.set()
        statuses = sorted(answer.status_code for answer in await asyncio.gather(*running))
    assert statuses == [200, 200, 503]
