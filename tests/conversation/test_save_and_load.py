"""Any sequence of operations, then saved, loaded and continued, equals the same without saving and loading."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tavernkit.cards import Character
from tavernkit.conversation import Conversation, ConversationStore, FileStore, MemoryStore, SqliteStore
from tavernkit.conversation._formats import saved_chat
from tavernkit.models import ModelError
from tavernkit.silly_tavern import Group, WorldBook
from tavernkit.testing import Disconnect, ScriptedModel, failure, streamed

MOMENT = datetime(2026, 5, 4, 3, 2, 1, tzinfo=UTC)
LORE = {
    "entries": {
        "0": {"uid": 0, "key": ["dragon"], "content": "Dragons are blue.", "position": 0, "sticky": 3, "cooldown": 2},
        "1": {"uid": 1, "key": ["a"], "content": "Seen {{addvar::seen::1}}.", "position": 1, "probability": 50},
    }
}
CARD = Character(
    name="Aria",
    description="Turn {{incvar::n}} of {{incglobalvar::all}}; {{pick::red::green::blue}} {{getvar::seen}}.",
    first_mes="Hello, {{user}}. {{setvar::greeted::1}}",
    alternate_greetings=("A {{random::cold::warm}} welcome.", "Hm."),
)
MEMBERS = [CARD, Character(name="Bram", first_mes="I am Bram {{incvar::b}}.", description="{{incvar::n}}")]
TEXTS = st.sampled_from(["Hi", "A dragon!", "{{setvar::x::7}}{{getvar::x}}", "<think>a</think>Hm", "", "{{roll::1d6}}"])
INDEXES = st.integers(-3, 3)
OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("send"), TEXTS),
        st.tuples(st.just("stream"), TEXTS),
        st.tuples(st.sampled_from(["regenerate", "swipe", "continue_reply", "impersonate", "undo"])),
        st.tuples(st.just("swipe"), st.sampled_from(["left", "right"])),
        st.tuples(st.just("quiet"), TEXTS),
        st.tuples(st.just("speak"), st.sampled_from(["Aria", "Bram"])),
        st.tuples(st.sampled_from(["delete", "delete_from", "hide", "unhide"]), INDEXES),
        st.tuples(st.just("edit"), INDEXES, TEXTS),
        st.tuples(st.just("choose_greeting"), st.integers(0, 2)),
    ),
    max_size=5,
)
SCRIPT = (
    "Well, {{user}}.", streamed("One ", "two {{setvar::r::2}}"), failure(500, "down"), Disconnect(("Half ", "a")),
    "<think>Hm.</think>Yes.", "A dragon!",
)  # fmt: skip


def model(start: int = 0) -> ScriptedModel:
    """One that answers the same question of the same number with the same reply."""
    return ScriptedModel(*(SCRIPT * 40)[start:])


def opened(platform: str, group: bool, store: ConversationStore, asked: int = 0) -> Conversation:
    book = WorldBook.from_json(LORE, name="lore")
    common: dict[str, Any] = {
        "members" if group else "card": MEMBERS if group else CARD,
        "group": Group(activation_strategy="list") if group and platform == "silly_tavern" else None,
        "books": [book],
        "user": "Ann",
        "model": model(asked),
        "platform": platform,
        "inputs": {"seed": 3, "clock": lambda: MOMENT, "warn": None},
        "warn": lambda _: None,
    }
    return Conversation.open(store, **common)


async def operate(chat: Conversation, operations: list[tuple[Any, ...]]) -> None:
    for name, *arguments in operations:
        try:
            if name == "stream":
                async for _ in chat.stream(*arguments):
                    pass
            else:
                await getattr(chat, name)(*arguments)
        except (ModelError, ValueError, NotImplementedError):
            pass  # the same happens to the other conversation


def outcome(chat: Conversation, skip: int = 0) -> object:
    """What is saved in the end, and what was asked."""
    asked = chat.model
    assert isinstance(asked, ScriptedModel)
    saved = saved_chat(chat.chat)
    state = {key: value for key, value in saved.state.items() if key != "file"}
    lines = [json.loads(line) for line in saved.file.split(b"\n")]
    return json.loads(json.dumps([lines, state, [body["messages"] for body in asked.requests[skip:]]]))


@pytest.mark.parametrize("group", [False, True])
@pytest.mark.parametrize("platform", ["silly_tavern", "risu_ai"])
def test_saved_and_loaded_is_as_if_nothing_had_happened(
    tmp_path_factory: pytest.TempPathFactory, platform: str, group: bool
) -> None:
    def new_store(kind: str) -> ConversationStore:
        if kind == "memory":
            return MemoryStore()
        folder = tmp_path_factory.mktemp("chats")
        return FileStore(folder / "chat") if kind == "file" else SqliteStore(folder / "chats.db", "chat")

    async def compare(first: list[tuple[Any, ...]], second: list[tuple[Any, ...]], kind: str) -> None:
        whole = opened(platform, group, MemoryStore())
        await operate(whole, first)
        assert isinstance(whole.model, ScriptedModel)
        count = len(whole.model.requests)
        await operate(whole, second)

        store = new_store(kind)
        before = opened(platform, group, store)
        await operate(before, first)
        await before.save()
        if platform == "silly_tavern" and not before.lines:
            return  # SillyTavern greets again when a chat without lines is opened
        after = opened(platform, group, store, count)
        await operate(after, second)
        assert outcome(after) == outcome(whole, count)

    @settings(max_examples=8, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])
    @given(OPERATIONS, OPERATIONS, st.sampled_from(["memory", "file", "sqlite"]))
    def check(first: list[tuple[Any, ...]], second: list[tuple[Any, ...]], kind: str) -> None:
        asyncio.run(compare(first, second, kind))

    check()
