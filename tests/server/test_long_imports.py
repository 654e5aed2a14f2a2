"""Imports of chats that are longer than a turn reads, and longer than a session may be."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tavernkit.server.imports import stored_chats
from tavernkit.server.limits import MAX_MESSAGES
from tavernkit.testing import ScriptedModel
from tests.server.conftest import Client, StartApp
from tests.server.test_imports import contents, finished


def silly_tavern_chat(count: int) -> tuple[str, bytes]:
    rows: list[object] = [{"user_name": "User", "character_name": "Aria", "chat_metadata": {"variables": {"x": "1"}}}]
    rows += [{"name": "User", "is_user": True, "mes": f"m{number}"} for number in range(count)]
    return "Aria - old.jsonl", "\n".join(map(json.dumps, rows)).encode()


def risu_ai_chat(count: int) -> tuple[str, bytes]:
    messages = [{"role": "user", "data": f"m{number}"} for number in range(count)]
    chat = {"name": "Old", "message": messages, "note": "", "localLore": [], "scriptstate": {"$x": "1"}}
    return "aria_old.json", json.dumps({"type": "risuChat", "ver": 2, "data": chat}).encode()


CHATS = [silly_tavern_chat, risu_ai_chat]


async def only_session(client: Client) -> str:
    return (await client.get("/api/sessions")).json()["data"][0]["id"]


@pytest.mark.parametrize("chat", CHATS)
async def test_a_chat_is_stored_in_parts_with_everything_in_it(
    chat: object, start: StartApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_chats, "STORED_AT_ONCE", 2)
    model = ScriptedModel("r")
    async with start(model) as client:
        job = await finished(client, {"file": chat(5)})  # type: ignore[operator]
        assert job["result"] == {"imported": {"session": 1}, "warnings": []}
        session = await only_session(client)
        assert await contents(client, session) == [f"m{number}" for number in range(5)]
        await client.post(f"/api/sessions/{session}/messages", json={"content": "new"})
        assert await contents(client, session) == [*(f"m{number}" for number in range(5)), "new", "r"]
        async with client.service.database.read() as connection:
            stored = await stored_chats.chats.get_chat(connection, session)
    assert list(stored.variables["local"].values()) == ["1"]  # type: ignore[union-attr]


@pytest.mark.parametrize("chat", CHATS)
async def test_of_a_chat_that_is_too_long_the_end_is_taken_and_told(
    chat: object, start: StartApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_chats, "MAX_SESSION_MESSAGES", 6)
    monkeypatch.setattr(stored_chats, "TAKEN_OF_LONGER", 4)
    async with start(ScriptedModel("r")) as client:
        name, data = chat(7)  # type: ignore[operator]
        (told,) = (await finished(client, {"file": (name, data)}))["result"]["warnings"]
        assert await contents(client, await only_session(client)) == ["m3", "m4", "m5", "m6"]
        assert (await finished(client, {"file": chat(6)}))["result"]["warnings"] == []  # type: ignore[operator]
    assert told.endswith("has 7 messages, more than a session can have: only the last 4 are taken")


async def test_a_chat_of_more_messages_than_a_turn_reads_is_taken_whole_while_others_are_served(
    start: StartApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    served, served_before_parts = 0, []
    insert_lines = stored_chats.insert_lines

    async def noting(*arguments: Any, **more: Any) -> None:
        served_before_parts.append(served)
        await insert_lines(*arguments, **more)

    async with start(ScriptedModel("r")) as client:
        monkeypatch.setattr(stored_chats, "insert_lines", noting)
        running = asyncio.create_task(finished(client, {"file": silly_tavern_chat(MAX_MESSAGES + 2000)}))
        while not running.done():
            await asyncio.sleep(0)
            served += 1
        assert (await running)["result"] == {"imported": {"session": 1}, "warnings": []}
        monkeypatch.undo()
        session = await only_session(client)
        reply = (await client.post(f"/api/sessions/{session}/messages", json={"content": "new"})).json()
        page = (await client.get(f"/api/sessions/{session}/messages", params={"limit": 3})).json()
    assert len(set(served_before_parts)) >= (MAX_MESSAGES + 2000) / stored_chats.STORED_AT_ONCE
    assert [message["content"] for message in page["data"]] == [f"m{MAX_MESSAGES + 1999}", "new", "r"]
    assert reply["warnings"] == ["the session is long: its first 2000 messages are no longer read for prompts"]
