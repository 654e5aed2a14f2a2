"""Turns of the REST API as streams, and lists page by page."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractContextManager
from typing import Any

import httpx
import pytest
from sqlalchemy import update

from tavernkit.examples import example_path
from tavernkit.models import ReplyPiece, Request
from tavernkit.models._scripted import Disconnect
from tavernkit.server.api.replies import ReplyListener
from tavernkit.server.storage.tables import Chat
from tavernkit.testing import ScriptedModel, calls, failure, streamed, tool_call
from tests.server.conftest import Client, StartApp

Events = list[tuple[str, dict[str, Any]]]


async def session(client: Client) -> str:
    return f"/api/sessions/{(await client.post('/api/sessions', json={'model': 'aria'})).json()['id']}"


def events(text: str) -> Events:
    found: Events = []
    for block in text.strip().split("\n\n"):
        name, data = block.split("\n")
        found.append((name.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    return found


def said(found: Events) -> list[str]:
    return [data["text"] for name, data in found if name == "delta"]


@pytest.mark.parametrize("kind", ["regenerate", "swipe", "continue", "impersonate"])
async def test_every_kind_of_turn_streams(start: StartApp, kind: str) -> None:
    async with start(ScriptedModel(streamed("One", "."), streamed("Two", " three"))) as client:
        path = await session(client)
        first = await client.post(f"{path}/messages", json={"content": "Hi", "stream": True})
        assert first.headers["content-type"].startswith("text/event-stream")
        assert first.headers["x-accel-buffering"] == "no"  # nginx passes on every piece at once
        second = await client.post(f"{path}/{kind}", json={"stream": True, "explain": True})
        last = (await client.get(f"{path}/messages")).json()["data"][-1]
    assert said(events(first.text)) == ["One", "."]
    name, turn = events(second.text)[-1]
    text = " Two three" if kind == "continue" else "Two three"  # with SillyTavern's blank between the parts
    assert (name, turn["status"], turn["text"]) == ("turn", "done", text)
    assert said(events(second.text)) == ["Two", " three"]
    assert turn["explanation"]["blocks"]
    if kind != "impersonate":
        assert turn["message_id"] == last["id"]


async def test_calls_of_tools_stream(start: StartApp) -> None:
    async with start(ScriptedModel(calls(tool_call("roll", {"sides": 6}, id="c1")))) as client:
        path = await session(client)
        tools = [{"type": "function", "function": {"name": "roll", "parameters": {"type": "object"}}}]
        body = {"content": "Roll", "stream": True, "options": {"tools": tools}}
        found = events((await client.post(f"{path}/messages", json=body)).text)
    assert found[0][1]["tool_calls"][0]["function"]["name"] == "roll"
    assert found[-1][1]["tool_calls"][0]["id"] == "c1"


async def test_what_fails_before_the_first_piece_has_a_status_of_its_own(start: StartApp) -> None:
    async with start(ScriptedModel(failure(400, "no"))) as client:
        path = await session(client)
        refused = await client.post(f"{path}/messages", json={"content": "Hi", "stream": True})
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "upstream_error")


async def test_a_stream_that_breaks_says_so_and_is_kept(start: StartApp) -> None:
    async with start(ScriptedModel(Disconnect(after=["Once "]))) as client:
        path = await session(client)
        found = events((await client.post(f"{path}/messages", json={"content": "Hi", "stream": True})).text)
        last = (await client.get(f"{path}/messages")).json()["data"][-1]
    assert (found[-1][0], found[-1][1]["status"], bool(found[-1][1]["broken"])) == ("turn", "partial", True)
    assert (last["content"], last["status"]) == ("Once ", "partial")


@pytest.mark.parametrize(
    "request_of",
    [
        ("/api/sessions/{session}/messages", {"content": "Hi"}),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "Hi"}]}),
        ("/v1/completions", {"prompt": "Hi"}),
        ("/v1/messages", {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 5}),
        ("/v1/responses", {"input": "Hi"}),
    ],
    ids=lambda given: given[0],
)
async def test_our_own_mistake_ends_a_stream_and_is_logged(
    start: StartApp, caplog: pytest.LogCaptureFixture, request_of: tuple[str, dict[str, Any]]
) -> None:
    async def broken(*_: object) -> None:
        raise RuntimeError("the disk is full")

    async with start(ScriptedModel(streamed("One", "."))) as client:
        client.service.turns.log.finish = broken  # type: ignore[method-assign]
        path, body = request_of
        body = {**body, "stream": True, **({"model": "aria"} if path.startswith("/v1") else {})}
        path = path.format(session=(await session(client)).rpartition("/")[2])
        reply = await client.post(path, json=body)
    assert reply.status_code == 200
    assert "the server failed; the log says why" in reply.text
    assert "the disk is full" not in reply.text
    assert caplog.text.count("RuntimeError: the disk is full") == 1


async def test_a_repeated_request_streams_what_was_said(start: StartApp) -> None:
    async with start(ScriptedModel("One.")) as client:
        path = await session(client)
        body = {"content": "Hi", "stream": True}
        texts = [
            (await client.post(f"{path}/messages", json=body, headers={"Idempotency-Key": "k"})).text for _ in range(2)
        ]
    name, turn = events(texts[1])[-1]
    assert (name, turn["replayed"], turn["text"]) == ("turn", True, "One.")


async def test_pages_of_sessions_lose_none_that_are_equally_old(client: Client) -> None:
    for number in range(7):
        await client.post("/api/sessions", json={"model": "aria", "session": f"s{number}"})
    async with client.service.database.write() as connection:
        await connection.execute(update(Chat).values(updated_at=1.5))
    found: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        page = (await client.get("/api/sessions", params={"limit": "3", **cursor})).json()
        found += [each["session"] for each in page["data"]]
        if page["next"] is None:
            break
        cursor = {"before": page["next"]}
    assert sorted(found) == [f"s{number}" for number in range(7)]
    assert (await client.get("/api/sessions", params={"before": "soon"})).status_code == 422


async def test_every_character_is_a_model(client: Client) -> None:
    for _ in range(4):
        await client.post("/api/characters", files={"file": ("a.json", example_path("aria.json").read_bytes())})
    models = [each["id"] for each in (await client.get("/v1/models")).json()["data"]]
    assert [each for each in models if "@" not in each] == ["aria", "aria-2", "aria-3", "aria-4", "aria-5"]
    assert len(models) == 10


async def test_pieces_reach_a_client_one_by_one_without_a_task_for_each() -> None:
    listener = ReplyListener(streaming=True)
    made: list[object] = []

    def counted(loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> asyncio.Task[Any]:
        made.append(work)
        return asyncio.Task(work, loop=loop, **options)

    async def speak() -> Any:
        for number in range(50):
            await asyncio.sleep(0)
            await listener.piece(ReplyPiece(text=str(number)))

    asyncio.get_running_loop().set_task_factory(counted)
    turn: asyncio.Task[Any] = asyncio.create_task(speak())
    heard = [piece.text async for piece in listener.pieces(turn) if isinstance(piece, ReplyPiece)]
    asyncio.get_running_loop().set_task_factory(None)
    assert heard == [str(number) for number in range(50)]
    assert len(made) == 1


class WaitingModel(ScriptedModel):
    """Goes on when the client has the first piece."""

    def __init__(self) -> None:
        super().__init__(repeat_last=True)
        self.heard = threading.Event()
        self.was_heard = False

    async def stream(self, request: Request) -> AsyncGenerator[ReplyPiece]:
        yield ReplyPiece(text="*One*")
        self.was_heard = await asyncio.to_thread(self.heard.wait, 20)
        yield ReplyPiece(text=" and *two*", finish_reason="stop")


@pytest.mark.parametrize("platform", ["silly_tavern", "risu_ai"])
async def test_pieces_reach_the_client_before_scripts_of_the_card_run(
    loopback: Callable[..., AbstractContextManager[str]], platform: str
) -> None:
    model = WaitingModel()
    card = json.loads(example_path("aria.json").read_text())
    script = {"comment": "", "in": r"\*(\w+)\*", "out": "_$1_", "type": "editoutput", "flag": "g", "ableFlag": True}
    card["data"].setdefault("extensions", {})["risuai"] = {"customScripts": [script]}
    with loopback(model) as url:
        async with httpx.AsyncClient(base_url=url) as client:
            await client.put("/api/characters/aria", files={"file": ("aria.json", json.dumps(card))})
            body = {"model": "aria", "tavernkit": {"platform": platform}}
            path = f"/api/sessions/{(await client.post('/api/sessions', json=body)).json()['id']}"
            said = {"content": "Hi", "stream": True}
            async with client.stream("POST", f"{path}/messages", json=said) as reply:
                async for line in reply.aiter_lines():
                    if "*One*" in line:
                        model.heard.set()
            last = (await client.get(f"{path}/messages")).json()["data"][-1]
    assert model.was_heard
    expected = "_One_ and _two_" if platform == "risu_ai" else "*One* and *two*"
    assert last["content"] == expected


@pytest.mark.parametrize(("pieces", "runs"), [(3, 3), (2500, 193)])
async def test_scripts_run_over_long_streams_only_so_often(start: StartApp, pieces: int, runs: int) -> None:
    card = json.loads(example_path("aria.json").read_text())
    code = "listenEdit('editOutput', function(id, v) setChatVar(id, 'n', (tonumber(getChatVar(id, 'n')) or 0) + 1) end)"
    trigger = {"comment": "", "type": "start", "conditions": [], "effect": [{"type": "triggerlua", "code": code}]}
    card["data"].setdefault("extensions", {})["risuai"] = {"triggerscript": [trigger]}
    async with start(ScriptedModel(streamed(*["a "] * pieces))) as client:
        await client.put("/api/characters/aria", files={"file": ("aria.json", json.dumps(card))})
        body = {"model": "aria", "tavernkit": {"platform": "risu_ai"}}
        path = f"/api/sessions/{(await client.post('/api/sessions', json=body)).json()['id']}"
        await client.post(f"{path}/messages", json={"content": "Hi", "stream": True})
        assert (await client.get(path)).json()["variables"] == {"n": runs + 1}  # the end is a piece as well
        assert (await client.get(f"{path}/messages")).json()["data"][-1]["content"] == ("a " * pieces).strip()
