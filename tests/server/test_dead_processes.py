"""A process that dies in mid-stream: what the client saw is kept."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import pytest
from sqlalchemy import update

from tavernkit.models import ReplyPiece
from tavernkit.models._scripted import Hang
from tavernkit.server.api.replies import ReplyListener
from tavernkit.server.retention import DAY
from tavernkit.server.storage.tables import Chat, Turn
from tavernkit.server.upstreams import listeners
from tavernkit.testing import ScriptedModel
from tests.server.conftest import Client, StartApp

CHAT = "/v1/chat/completions"


def dying() -> ScriptedModel:
    """A model that is cut off in mid-stream."""
    return ScriptedModel(Hang(after=["Once ", "upon"]))


@pytest.fixture(autouse=True)
def kept_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits a second."""
    monkeypatch.setattr(listeners, "KEPT_SECONDS", 0.01)


def body(text: str, platform: str = "silly_tavern", **more: Any) -> dict[str, Any]:
    tavernkit = {"platform": platform, "session": "s"}
    return {"model": "aria", "messages": [{"role": "user", "content": text}], "tavernkit": tavernkit, **more}


async def die(client: Client, text: str, platform: str = "silly_tavern", key: str = "k") -> asyncio.Task[Any]:
    """Let a stream say something, then take its lease away, as a dead process loses it."""
    headers = {"Idempotency-Key": key}
    streaming = asyncio.create_task(client.post(CHAT, json=body(text, platform, stream=True), headers=headers))
    await until_kept(client)
    await lose_leases(client)
    return streaming


async def until_kept(client: Client, wanted: int = 1) -> None:
    """Wait until a turn runs, and what it says is stored."""
    while True:
        async with client.service.database.read() as connection:
            rows = (await connection.execute(Turn.__table__.select())).mappings().all()
        kept = sum("Once upon" in json.dumps(row["response"]) for row in rows)
        if kept >= wanted and any(row["status"] == "running" for row in rows):
            return
        await asyncio.sleep(0.01)


async def lose_leases(client: Client) -> None:
    """Take all leases away, as dead processes lose them."""
    async with client.service.database.write() as connection:
        await connection.execute(update(Chat).values(lease_until=0.0))
        await connection.execute(update(Turn).values(lease_until=0.0))


async def texts(client: Client) -> list[tuple[str, str, str]]:
    session = (await client.get("/api/sessions")).json()["data"][0]["id"]
    found = (await client.get(f"/api/sessions/{session}/messages")).json()["data"]
    return [(each["role"], each["content"], each["status"]) for each in found]


async def ended(*streams: asyncio.Task[Any]) -> None:
    for stream in streams:
        stream.cancel()
    await asyncio.gather(*streams, return_exceptions=True)


@pytest.mark.parametrize("platform", ["silly_tavern", "risu_ai"])
@pytest.mark.parametrize("read", [False, True])
async def test_the_next_turn_finds_what_was_said(start: StartApp, platform: str, read: bool) -> None:
    model = ScriptedModel("Next.")
    async with start(dying(), shutdown_seconds=0) as dead, start(model) as client:
        stream = await die(dead, "Hi", platform)
        if read:
            assert (await texts(client))[-2:] == [("user", "Hi", "complete"), ("assistant", "Once upon", "partial")]
        assert (await client.post(CHAT, json=body("Go on", platform))).status_code == 200
        assert (await texts(client))[-4:] == [
            ("user", "Hi", "complete"),
            ("assistant", "Once upon", "partial"),
            ("user", "Go on", "complete"),
            ("assistant", "Next.", "complete"),
        ]
        await ended(stream)
    assert "Once upon" in json.dumps(model.requests[0])


async def test_what_was_said_is_kept_until_the_session_is_read_again(start: StartApp) -> None:
    async with start(dying(), shutdown_seconds=0) as dead, start() as client:
        stream = await die(dead, "Hi")
        assert await client.service.retention.prune(time.time() + 1000 * DAY) == {"turns": 0, "jobs": 0, "usage": 0}
        assert (await texts(client))[-1] == ("assistant", "Once upon", "partial")
        assert await client.service.retention.prune(time.time() + 1000 * DAY) == {"turns": 1, "jobs": 0, "usage": 0}
        await ended(stream)


@pytest.mark.parametrize("read", [False, True])
async def test_a_repeated_request_is_answered_anew(start: StartApp, read: bool) -> None:
    async with start(dying(), shutdown_seconds=0) as dead, start(ScriptedModel("Whole.")) as client:
        stream = await die(dead, "Hi")
        if read:
            assert (await texts(client))[-1] == ("assistant", "Once upon", "partial")
        again = await client.post(CHAT, json=body("Hi"), headers={"Idempotency-Key": "k"})
        assert again.status_code == 200, again.text
        assert (await texts(client))[-2:] == [("user", "Hi", "complete"), ("assistant", "Whole.", "complete")]
        await ended(stream)


async def test_a_process_that_was_only_slow_does_not_end_the_turn_of_another(start: StartApp) -> None:
    async with start(dying(), shutdown_seconds=0) as slow, start(ScriptedModel("Whole.")) as client:
        stream, finish = await die(slow, "Hi"), client.service.turns.log.finish

        async def finish_late(*arguments: Any) -> None:
            await ended(stream)
            while slow.service.turns._running:  # noqa: ASYNC110  # nobody tells when a turn has ended
                await asyncio.sleep(0)
            await finish(*arguments)

        client.service.turns.log.finish = finish_late  # type: ignore[method-assign]
        again = await client.post(CHAT, json=body("Hi"), headers={"Idempotency-Key": "k"})
        assert again.status_code == 200, again.text
        assert (await texts(client))[-2:] == [("user", "Hi", "complete"), ("assistant", "Whole.", "complete")]
        repeated = await client.post(CHAT, json=body("Hi"), headers={"Idempotency-Key": "k"})
    assert repeated.json()["choices"][0]["message"]["content"] == "Whole."


async def test_a_whole_reply_is_stored_once(start: StartApp) -> None:
    async with start(ScriptedModel("Once upon a time.")) as client:
        await client.post(CHAT, json=body("Hi", stream=True))
        assert (await texts(client))[-2:] == [
            ("user", "Hi", "complete"),
            ("assistant", "Once upon a time.", "complete"),
        ]


@pytest.mark.parametrize("platform", ["silly_tavern", "risu_ai"])
@pytest.mark.parametrize("kind", ["swipe", "regenerate", "continue", "impersonate"])
async def test_other_turns_are_recovered_too(start: StartApp, platform: str, kind: str) -> None:
    """What was said of another try is a swipe, of a continuation the reply's end; nothing is lost of the reply."""
    async with start(ScriptedModel("First."), shutdown_seconds=0) as client:
        await client.post(CHAT, json=body("Hi", platform))
        session = (await client.get("/api/sessions")).json()["data"][0]["id"]
    async with start(dying(), shutdown_seconds=0) as dead, start() as client:
        path = f"/api/sessions/{session}"
        stream = asyncio.create_task(dead.post(f"{path}/{kind}", json={"stream": True}))
        await until_kept(dead, 1 if kind != "impersonate" else 0)
        await lose_leases(dead)
        last = (await client.get(f"{path}/messages")).json()["data"][-1]
        told = (last["content"], last["status"], last["swipes"] and last["swipes"][-2:], last["swipe"])
        if kind == "impersonate":  # the user would have got a text to send: nobody has said it
            assert told[:2] == ("First.", "complete")
        elif kind == "continue":
            assert told[:2] == ("First.Once upon", "partial")
        else:
            assert told == ("Once upon", "partial", ["First.", "Once upon"], 1)
        again = await client.post(f"{path}/swipe", json={})
        assert again.status_code == 200, again.text
        await ended(stream)


@pytest.mark.parametrize("platform", ["silly_tavern", "risu_ai"])
async def test_what_the_user_began_is_recovered_with_what_was_said(start: StartApp, platform: str) -> None:
    async with start(ScriptedModel("First."), shutdown_seconds=0) as client:
        await client.post(CHAT, json=body("Hi", platform))
        session = (await client.get("/api/sessions")).json()["data"][0]["id"]
    async with start(dying(), shutdown_seconds=0) as dead, start() as client:
        path = f"/api/sessions/{session}"
        stream = asyncio.create_task(dead.post(f"{path}/continue", json={"content": "Well, ", "stream": True}))
        await until_kept(dead)
        await lose_leases(dead)
        last = (await client.get(f"{path}/messages")).json()["data"][-2:]
        assert [each["content"] for each in last] == ["First.", "Well, Once upon"]
        await ended(stream)


async def test_a_long_reply_is_stored_in_larger_and_larger_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listeners, "KEPT_SECONDS", 60)
    stored: list[int] = []

    async def store(said: Any) -> None:
        stored.append(len(said[0]["text"]))

    client = ReplyListener(streaming=True)
    client.gone.set()  # it takes no pieces
    keeping = listeners.KeepingListener(client, store)
    for _ in range(400):
        await keeping.piece(ReplyPiece(text="x" * 2048))
        for _ in range(5):  # it stores in a task
            await asyncio.sleep(0)
    await keeping.close()
    assert stored[:2] == [2048, 4096]
    assert sum(stored) < 12 * 400 * 2048
    assert stored[-1] > 0.85 * 400 * 2048
