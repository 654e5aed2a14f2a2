"""A turn of a long chat does what a turn of a short one does: counted, not timed."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest

from tavernkit.risu_ai import RisuMessage
from tavernkit.server.adapters.risu_ai_lines import user_line as risu_line
from tavernkit.server.sessions.changes import KnownLines
from tavernkit.server.storage import chats
from tavernkit.server.storage import lines as stored_lines
from tavernkit.server.storage.lines import insert_lines, new_line, store_lines
from tavernkit.server.turns import turn_log
from tavernkit.silly_tavern import ChatMessage
from tavernkit.testing import ScriptedModel
from tests.server.conftest import Client, StartApp


async def long_session(client: Client, count: int) -> str:
    made = (await client.post("/api/sessions", json={"model": "aria", "greeting": None})).json()["id"]
    lines = []
    for number in range(count):
        native: dict[str, Any] = {"name": "User", "is_user": True, "mes": f"m{number}", "extra": {}}
        lines.append(replace(new_line("user", f"m{number}", native), position=number))
    async with client.service.database.write() as connection:
        chat = await chats.get_chat(connection, made)
        for start in range(0, count, 500):
            await insert_lines(connection, made, lines[start : start + 500], now=time.time())
        await chats.update_chat(connection, chat, next_position=count)
    return f"/api/sessions/{made}"


async def test_the_5000th_message_is_read_and_converted_as_the_50th(
    start: StartApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    converted = read = 0
    from_json, line = ChatMessage.from_json, stored_lines._line

    def counting(data: Any) -> ChatMessage:
        nonlocal converted
        converted += 1
        return from_json(data)

    def counting_line(row: Any) -> Any:
        nonlocal read
        read += 1
        return line(row)

    async with start(ScriptedModel(*["Yes."] * 10)) as client:
        counts: dict[int, tuple[int, int]] = {}
        for size in (50, 5000):
            base = await long_session(client, size)
            await client.post(f"{base}/messages", json={"content": "first"})
            with monkeypatch.context() as patch:
                patch.setattr(ChatMessage, "from_json", counting)
                patch.setattr(stored_lines, "_line", counting_line)
                converted = read = 0
                answer = await client.post(f"{base}/messages", json={"content": "second"})
                assert answer.status_code == 200, answer.text
                counts[size] = converted, read
            stored = (await client.get(f"{base}/messages?limit=5")).json()["data"]
            assert [each["content"] for each in stored][-4:] == ["first", "Yes.", "second", "Yes."]
    assert counts[50][0] > 0
    assert counts[5000][0] <= counts[50][0] + 20  # all but a few are converted before
    assert counts[5000][1] == counts[50][1] == 0


async def test_messages_of_risuai_are_made_and_compared_once(start: StartApp, monkeypatch: pytest.MonkeyPatch) -> None:
    async with start(ScriptedModel(*["Yes."] * 10)) as client:
        body = {"model": "aria", "greeting": 0, "tavernkit": {"platform": "risu_ai"}}
        made = (await client.post("/api/sessions", json=body)).json()["id"]
        lines = [replace(risu_line(f"m{number}", user_name="User"), position=number) for number in range(500)]
        async with client.service.database.write() as connection:
            chat = await chats.get_chat(connection, made)
            await insert_lines(connection, made, lines, now=time.time())
            await chats.update_chat(connection, chat, next_position=len(lines))
        path = f"/api/sessions/{made}/messages"
        await client.post(path, json={"content": "first"})
        stored: list[int] = []
        store = store_lines

        async def counting(connection: Any, chat_id: str, old: Any, placed: Any, turn_id: str | None = None) -> None:
            stored.append(sum(before is not after for before, after in zip(old, placed, strict=False)))
            await store(connection, chat_id, old, placed, turn_id)

        made_again: list[object] = []
        from_json = RisuMessage.from_json

        def noted(data: Any) -> RisuMessage:
            made_again.append(data)
            return from_json(data)

        monkeypatch.setattr(RisuMessage, "from_json", noted)
        monkeypatch.setattr(turn_log, "store_lines", counting)
        assert (await client.post(path, json={"content": "second"})).status_code == 200
        now = (await client.get(f"{path}?limit=4")).json()["data"]
    assert [each["content"] for each in now] == ["first", "Yes.", "second", "Yes."]
    assert len(made_again) < 10
    assert stored[0] <= 1


def test_lines_of_chats_are_forgotten_when_there_are_too_many() -> None:
    known = KnownLines(chats=3, lines=10)
    some = [new_line("user", "a", {}) for _ in range(4)]
    for name in ("a", "b", "a", "c"):
        known.put(name, 1, some)
    assert known.get("b") is None
    assert known.get("a") == (1, some)
    known.put("d", 2, some * 3)
    assert [known.get(name) for name in "acd"] == [None, None, None]
