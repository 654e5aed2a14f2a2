"""What a turn of a long conversation does not do again for messages that have not changed."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tavernkit as tk
from tavernkit.conversation import FileStore
from tavernkit.errors import ConfigError
from tavernkit.risu_ai import Chat, RisuChat, RisuMessage
from tavernkit.risu_ai import _plan as prompt_plan
from tavernkit.risu_ai._conversation import snapshots
from tavernkit.risu_ai._files.chat_file import ChatFile, read_chats, write_chats
from tests.risu_ai.building.scene import inputs


def opened(count: int, **raw: Any) -> Chat:
    messages = [
        {"role": "user" if n % 2 else "char", "data": f"Line {n}.", "chatId": f"m{n}", "time": n} for n in range(count)
    ]
    chat = RisuChat.from_json({"id": "c", "name": "A chat", "message": messages, "fmIndex": -1, **raw})
    return Chat(**inputs(history=chat))


def test_a_turn_writes_only_messages_that_are_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[object] = []
    converted: list[object] = []
    write, convert = snapshots.json_stringify, RisuMessage.to_json
    monkeypatch.setattr(snapshots, "json_stringify", lambda value: (written.append(value), write(value))[1])
    monkeypatch.setattr(RisuMessage, "to_json", lambda self: (converted.append(self), convert(self))[1])
    path = tmp_path / "chat.json"
    model = tk.model("scripted", replies=["One.", "Two."])

    async def talk() -> tuple[int, int]:
        async with tk.Conversation(opened(400), model=model, store=FileStore(path)) as chat:
            await chat.send("First?")
            written.clear()
            converted.clear()
            await chat.send("Second?")
            return len(written), len(converted)

    times = asyncio.run(talk())
    assert max(times) < 40
    (saved,) = read_chats(path.read_bytes()).chats
    assert [message.data for message in saved.messages[-4:]] == ["First?", "One.", "Second?", "Two."]
    assert saved.messages[7].raw["chatId"] == "m7"


def change(chat: Chat, what: str, place: int) -> None:
    match what:
        case "edit":
            chat.edit(place, f"Edited {place}: \ud83d\ude00 \u2028 é.")
        case "delete":
            chat.delete(place)
        case "cut":
            chat.delete_from(place)
        case "disable":
            chat.disable(place)
        case "note":
            chat.change_chat({"note": f"Note {place}."})
        case "variable":
            chat.variables.set("n", str(place))
        case _:
            pass


@given(
    count=st.integers(0, 8),
    played=st.lists(
        st.tuples(st.sampled_from(["edit", "delete", "cut", "disable", "note", "variable"]), st.integers(0, 9)),
        max_size=6,
    ),
    raw=st.dictionaries(
        st.sampled_from(["1", "note", "mine", "scriptstate", "modules", "localLore", "10"]),
        st.sampled_from(["x", None, [], {"$a": "1"}, 1.0, "é\ud800"]),
        max_size=4,
    ),
)
def test_the_file_is_the_one_that_is_written_of_the_whole_chat(
    count: int, played: list[tuple[str, int]], raw: dict[str, Any]
) -> None:
    chat = opened(count, **raw)
    for what, place in [("", 0), *played]:
        with suppress(ConfigError):  # the chat may have no such line
            change(chat, what, place)
        assert b"".join(chat.file_parts()) == write_chats(ChatFile((RisuChat.from_json(chat.stored),)))
        assert json.dumps(chat.snapshot()["chat"]) == json.dumps(chat.stored)


def test_a_request_that_no_trigger_changes_is_asked_with_the_plan_that_was_built(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[object] = []
    make = prompt_plan.prompt_message
    monkeypatch.setattr(prompt_plan, "prompt_message", lambda block: (made.append(block), make(block))[1])

    async def talk() -> int:
        model = tk.model("scripted", replies=["One."])
        async with tk.Conversation(opened(40), model=model) as chat:
            turn = await chat.send("First?")
            assert turn.plan is not None
            return len(turn.plan.blocks)

    assert asyncio.run(talk()) == len(made)
