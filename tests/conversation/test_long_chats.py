"""What a turn of a long conversation does not do again for lines that have not changed."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

import tavernkit as tk
from tavernkit.cards import Character
from tavernkit.conversation import _undo as undo
from tavernkit.silly_tavern import Chat, ChatMessage
from tavernkit.silly_tavern._conversation import chat_state

LINES = 200


def opened(path: Path) -> tk.Conversation:
    lines = [{"name": "Ann" if n % 2 else "Bel", "is_user": bool(n % 2), "mes": f"Line {n}."} for n in range(LINES)]
    header = {"user_name": "Ann", "character_name": "Bel", "chat_metadata": {}}
    path.write_text("\n".join(json.dumps(each) for each in (header, *lines)), encoding="utf-8")
    model = tk.model("scripted", replies=["One.", "Two."])
    return tk.Conversation.open(path, card=Character(name="Bel"), user="Ann", model=model)


def own_chat(chat: tk.Conversation) -> Chat:
    assert isinstance(chat.chat, Chat)
    return chat.chat


def test_a_turn_writes_reads_and_digests_only_lines_that_are_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: dict[str, int] = {"written": 0, "read": 0, "digested": 0}
    dump, read, digest = chat_state.dump_json, ChatMessage.from_json, undo._written  # pyright: ignore[reportPrivateUsage]  # counted

    def count(what: str) -> None:
        done[what] += 1

    monkeypatch.setattr(chat_state, "dump_json", lambda value: (count("written"), dump(value))[1])
    monkeypatch.setattr(ChatMessage, "from_json", lambda data: (count("read"), read(data))[1])
    monkeypatch.setattr(undo, "_written", lambda value: (count("digested"), digest(value))[1])

    async def talk() -> dict[str, int]:
        async with opened(tmp_path / "chat.jsonl") as chat:
            await chat.send("First?")
            first = dict(done)
            await chat.send("Second?")
            return {what: times - first[what] for what, times in done.items()}

    assert all(times < LINES / 4 for times in asyncio.run(talk()).values())


def test_a_line_that_is_changed_directly_is_written_anew(tmp_path: Path) -> None:
    path = tmp_path / "chat.jsonl"

    async def talk() -> None:
        async with opened(path) as chat:
            await chat.send("First?")
            before, own = chat.chat.snapshot(), own_chat(chat)
            own.state.lines[LINES - 2]["mes"] = "Changed."
            own.state.lines[5].setdefault("extra", {})["note"] = "new"  # type: ignore[index]  # an object
            await chat.save()
            assert before != chat.chat.snapshot()
            assert "Changed." in [message.content for message in chat.preview("Now?").messages]

    asyncio.run(talk())
    saved = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert saved[LINES - 1]["mes"] == "Changed."
    assert saved[6]["extra"]["note"] == "new"
    assert [line["mes"] for line in saved[-2:]] == ["First?", "One."]


def test_the_file_has_what_the_chats_own_file_has(tmp_path: Path) -> None:
    async def talk() -> None:
        async with opened(tmp_path / "chat.jsonl") as chat:
            await chat.send("Ünïcödé \ud83d?")
            own = own_chat(chat)
            own.state.lines.append({})
            assert own.state.file_text() == own.file.dumps()

    asyncio.run(talk())
