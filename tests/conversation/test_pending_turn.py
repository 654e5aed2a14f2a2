"""Turns whose requests the application sends itself, and what operations change."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Sequence

import pytest

import tavernkit as tk
from tavernkit.cache import PromptCache
from tavernkit.conversation import ConversationBusyError, PendingTurn
from tavernkit.conversation._opening import Platform
from tavernkit.errors import ConfigError
from tavernkit.examples import example_path
from tavernkit.models import ModelError, Reply, ToolCall, Usage
from tavernkit.risu_ai import Settings as RisuSettings
from tavernkit.silly_tavern import Preset
from tests.conversation.fake_chat import FakeChat

REPLIES = "The lamp lit *itself*.  ", "Aria, keeper of the light."
PLATFORMS: tuple[Platform, ...] = "silly_tavern", "risu_ai"


def opened(platform: Platform, replies: Sequence[str] = ()) -> tk.Conversation:
    return tk.Conversation.open(
        card=example_path("aria.json"),
        books=[example_path("tidewatch.json")],
        user="Ann",
        platform=platform,
        model=tk.model("scripted", replies=list(replies)) if replies else None,
    )


def texts(chat: tk.Conversation) -> list[object]:
    return [line.get("mes", line.get("data")) for line in chat.lines]


async def answered(pending: PendingTurn, *replies: Reply | str) -> list[list[object]]:
    """Answer a turn to its end; return its prompts."""
    prompts: list[list[object]] = []
    for reply in replies:
        assert pending.plan is not None
        prompts.append([message.content for message in pending.plan.messages])
        await pending.receive(reply)
    assert pending.plan is None
    return prompts


@pytest.mark.parametrize("platform", PLATFORMS)
async def test_a_begun_turn_does_what_a_turn_with_a_model_does(platform: Platform) -> None:
    sent, begun = opened(platform, REPLIES), opened(platform)
    prompts: list[list[object]] = []
    for text, reply in zip(("Who lit the lamp?", "And who are you?"), REPLIES, strict=True):
        turn = await sent.send(text)
        pending = await begun.begin(text)
        prompts += await answered(pending, reply)
        assert turn.plan is not None
        assert prompts[-1] == [message.content for message in turn.plan.messages]
        assert (pending.turn.text, pending.turn.kind) == (turn.text, "send")
    assert texts(begun) == texts(sent)
    assert begun.last is not None
    assert begun.last.reply == Reply(text=REPLIES[1])
    assert await begun.undo()
    assert await sent.undo()
    assert texts(begun) == texts(sent)


async def test_other_operations_can_be_begun() -> None:
    chat = opened("silly_tavern")
    await answered(await chat.begin("Hi"), "One.")
    await answered(await chat.begin(kind="swipe"), "Two.")
    await answered(await chat.begin(kind="continue"), "Three.")
    assert texts(chat)[1:] == ["Hi", "Two. Three."]
    quiet = await chat.begin("Sum it up.", kind="quiet")
    await answered(quiet, "A lamp.")
    assert quiet.turn.text == "A lamp."
    assert texts(chat)[1:] == ["Hi", "Two. Three."]
    with pytest.raises(ConfigError, match="sing"):
        await chat.begin("la", kind="sing")  # pyright: ignore[reportArgumentType]


async def test_a_tool_call_asks_for_another_reply() -> None:
    def depth(of: str) -> str:
        """How deep it is."""
        return f"{of}: 12"

    preset = Preset.from_json({"function_calling": True, "chat_completion_source": "openai"})
    chat = tk.Conversation.open(card=example_path("aria.json"), preset=preset, tools=[depth])
    pending = await chat.begin("How deep is it?")
    call = Reply(text="", tool_calls=(ToolCall(id="1", name="depth", arguments='{"of": "well"}'),))
    first, second = await answered(pending, call, "Twelve feet.")
    assert "How deep is it?" in str(first)
    assert "well: 12" not in str(first)
    assert pending.turn.plan is not None
    assert "well: 12" in str(pending.turn.plan.to_messages())
    assert len(pending.turn.exchanges) == len((first, second))
    assert texts(chat)[-1] == "Twelve feet."


async def test_a_group_asks_for_a_reply_of_each_member() -> None:
    chat = tk.Conversation.open(members=[example_path("aria.json"), example_path("aria.json")])
    pending = await chat.begin("Hello, both.")
    rounds = 0
    while pending.plan is not None:
        rounds += 1
        await pending.receive(f"Reply {rounds}.")
    assert texts(chat)[-rounds:] == [f"Reply {number}." for number in range(1, rounds + 1)]


@pytest.mark.parametrize("platform", PLATFORMS)
async def test_a_request_that_failed_ends_the_turn_as_a_failing_model_does(platform: Platform) -> None:
    chat = opened(platform)
    pending = await chat.begin("Hi")
    if platform == "risu_ai":  # its settings say how often it asks again
        for _ in range(RisuSettings().request_retries):
            await pending.fail("no credit")
    with pytest.raises(ModelError, match="no credit"):
        await pending.fail("no credit")
    assert pending.plan is None
    assert texts(chat)[-1] == "Hi"
    await answered(await chat.begin(kind="regenerate"), "Here I am.")
    assert texts(chat)[-1] == "Here I am."


def _close(pending: PendingTurn) -> object:
    return pending.aclose()


async def _leave(pending: PendingTurn) -> None:
    async with pending:
        pass


@pytest.mark.parametrize("end", [_close, _leave])
@pytest.mark.parametrize("platform", PLATFORMS)
async def test_a_turn_without_a_reply_keeps_the_message(
    platform: Platform, end: Callable[[PendingTurn], object]
) -> None:
    chat = opened(platform)
    pending = await chat.begin("Hi")
    result = end(pending)
    assert asyncio.iscoroutine(result)
    await result
    assert pending.plan is None
    assert texts(chat)[-1] == "Hi"
    with pytest.raises(ConfigError, match="not complete"):
        _ = pending.turn
    with pytest.raises(ConfigError, match="waits for no reply"):
        await pending.receive("Too late.")
    await answered(await chat.begin("Again?"), "Yes.")


async def test_a_cache_sees_begun_turns_too() -> None:
    chat = opened("silly_tavern")
    chat.cache = PromptCache("openai")
    await answered(await chat.begin("Hi"), Reply(text="Yes.", usage=Usage(input_tokens=900, reported=True)))
    await answered(await chat.begin("And?"), "No.")
    assert [turn.reported_tokens for turn in chat.cache.report.turns] == [0, None]


async def test_a_dropped_turn_frees_the_conversation() -> None:
    chat = opened("silly_tavern")
    pending = await chat.begin("Hi")
    del pending
    gc.collect()
    await answered(await chat.begin("Again?"), "Yes.")
    assert texts(chat)[1:] == ["Hi", "Again?", "Yes."]


async def test_other_operations_of_the_same_task_are_refused_meanwhile() -> None:
    chat = opened("silly_tavern")
    pending = await chat.begin("Hi")
    with pytest.raises(ConversationBusyError, match="receive"):
        await chat.edit(-1, "Hello")
    with pytest.raises(ConversationBusyError):
        await chat.begin("Hi again")
    await answered(pending, "Yes.")
    await chat.edit(-1, "No.")
    assert texts(chat)[-1] == "No."


async def test_operations_of_other_tasks_wait() -> None:
    chat = opened("silly_tavern")
    pending = await chat.begin("Hi")
    edit = asyncio.create_task(chat.edit(-1, "No."))
    await asyncio.sleep(0)
    await answered(pending, "Yes.")
    await edit
    assert texts(chat)[-1] == "No."


async def test_a_reply_of_the_wrong_type_is_refused_and_the_turn_still_waits() -> None:
    chat = opened("silly_tavern")
    pending = await chat.begin("Hi")
    with pytest.raises(ConfigError, match="a Reply or the model's text"):
        await pending.receive({"text": "Yes."})  # pyright: ignore[reportArgumentType]
    await answered(pending, "Yes.")


async def test_a_turn_that_needs_no_reply_has_ended_at_once() -> None:
    chat = opened("silly_tavern")
    pending = await chat.begin(kind="swipe")  # the greeting has another text
    assert pending.plan is None
    assert pending.turn.exchanges == ()


async def test_closing_the_conversation_ends_the_turn() -> None:
    chat = opened("silly_tavern")
    pending = await chat.begin("Hi")
    await chat.aclose()
    with pytest.raises(ConfigError, match="waits for no reply"):
        await pending.receive("Too late.")


async def test_closing_the_conversation_while_a_reply_is_received_says_so() -> None:
    chat = opened("silly_tavern")
    pending = await chat.begin("Hi")
    receiving = asyncio.create_task(pending.receive("Yes."))
    await asyncio.sleep(0)
    await chat.aclose()
    with pytest.raises(ConfigError, match="closed"):
        await receiving


def test_the_same_without_an_event_loop() -> None:
    with opened("silly_tavern").blocking() as chat:
        with chat.begin("Hi") as pending:
            with pytest.raises(ConversationBusyError, match="receive"):
                chat.send("Hi again")
            while pending.plan is not None:
                pending.receive("Yes.")
        assert pending.turn.text == "Yes."
        assert len(chat.changes.lines) == 2
        failing = chat.begin("And?")
        with pytest.raises(ModelError, match="no credit"):
            failing.fail("no credit")
        chat.begin("Well?").close()
        left = chat.begin("Still?")
        chat.close()
        left.close()
        assert [line["mes"] for line in chat.lines][-4:] == ["Yes.", "And?", "Well?", "Still?"]


# Changes


@pytest.mark.parametrize("platform", PLATFORMS)
async def test_changes_are_the_lines_and_the_state_of_the_last_operation(platform: Platform) -> None:
    chat = opened(platform)
    assert (chat.changes.lines, chat.changes.removed, chat.changes.state) == ((), (), {})
    before = len(chat.lines)
    await answered(await chat.begin("{{setvar::mood::calm}}Hi"), "Calm.")
    assert chat.changes.start == before
    assert chat.changes.lines == tuple(chat.lines[before:])
    mood = {"silly_tavern": "/chat_metadata/variables/mood", "risu_ai": "/chat/scriptstate/$mood"}[platform]
    assert chat.changes.state[mood] == "calm"
    added = chat.changes
    await chat.undo()
    assert (chat.changes.removed, chat.changes.lines) == (added.lines, ())
    assert chat.changes.state[mood] is None


async def test_changes_of_an_edit_begin_with_the_edited_line() -> None:
    chat = opened("silly_tavern", REPLIES)
    await chat.send("Hi")
    await chat.edit(1, "Hello")
    first, *rest = chat.changes.lines
    assert isinstance(first, dict)
    assert (chat.changes.start, first["mes"], len(rest)) == (1, "Hello", 1)
    assert len(chat.changes.removed) == len(chat.changes.lines)


async def test_changes_can_be_changed_without_effect_on_the_chat() -> None:
    chat = opened("silly_tavern", REPLIES)
    await chat.send("Hi")
    line = chat.changes.lines[0]
    assert isinstance(line, dict)
    line["mes"] = "changed"
    assert texts(chat)[1] == "Hi"


async def test_chats_of_an_application_have_changes_too() -> None:
    chat = tk.Conversation(FakeChat("Hello."))
    await answered(await chat.begin("Hi"), "Yes.")
    assert chat.changes.lines or chat.changes.state
