"""What a conversation does around a chat: order, saving, streams, undo, tools."""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import tavernkit as tk
from tavernkit._loop_thread import _Call
from tavernkit.cache import PromptCache
from tavernkit.conversation import (
    Conversation,
    ConversationBusyError,
    FileStore,
    MemoryStore,
    SavedChat,
    StoreError,
)
from tavernkit.errors import ConfigError
from tavernkit.models import ModelError, Usage
from tavernkit.testing import Disconnect, Hang, ScriptedModel, answer, calls, failure, streamed, tool_call, usage
from tests.conversation.fake_chat import FakeChat


class Recorder(MemoryStore):
    """Remembers everything that was ever saved."""

    def __init__(self) -> None:
        super().__init__()
        self.all: list[list[str]] = []

    def save(self, chat: SavedChat) -> None:
        super().save(chat)
        self.all.append([line["text"] for line in json.loads(chat.file)["lines"]])


def conversation(*replies: object, store: MemoryStore | None = None) -> tuple[Conversation, FakeChat, ScriptedModel]:
    chat, model = FakeChat("Hello."), ScriptedModel(*replies)  # pyright: ignore[reportArgumentType]  # a script
    return Conversation(chat, model=model, store=store), chat, model


async def test_the_users_message_is_saved_before_the_model_is_asked() -> None:
    store = Recorder()
    talk, _, _ = conversation(failure(500), store=store)
    with pytest.raises(ModelError):
        await talk.send("Hi")
    assert store.all == [["Hello.", "Hi"]]


async def test_every_operation_is_saved() -> None:
    store = Recorder()
    talk, _, _ = conversation("One.", "Two.", store=store)
    await talk.send("Hi")
    await talk.edit(-1, "Edited.")
    await talk.hide(0)
    await talk.unhide(0)
    await talk.regenerate()
    await talk.delete(-1)
    await talk.delete_from(1)
    await talk.choose_greeting(1)
    assert store.all == [
        ["Hello.", "Hi"],
        ["Hello.", "Hi", "One."],
        ["Hello.", "Hi", "Edited."],
        ["Hello.", "Hi", "Edited."],
        ["Hello.", "Hi", "Edited."],
        ["Hello.", "Hi", "Two."],
        ["Hello.", "Hi"],
        ["Hello."],
        ["greeting 1"],
    ]


async def test_the_last_turn_has_its_plan_and_reply() -> None:
    talk, _, _ = conversation("One.")
    turn = await talk.send("Hi")
    assert talk.last is turn
    assert (turn.text, turn.reply and turn.reply.text) == ("One.", "One.")
    assert turn.plan is not None
    assert [message.content for message in turn.plan.messages] == ["Hello.", "Hi"]


async def test_a_failed_turn_still_says_what_was_asked() -> None:
    talk, _, _ = conversation(failure(500, "down"))
    with pytest.raises(ModelError, match="down"):
        await talk.send("Hi")
    assert talk.last is not None
    assert talk.last.plan is not None
    assert talk.last.reply is not None
    assert talk.last.reply.interrupted == "down"


async def test_a_stream_gives_the_pieces_and_then_the_turn() -> None:
    talk, _, _ = conversation(streamed("One", " two."))
    stream = talk.stream("Hi")
    with pytest.raises(ConfigError, match="to its end"):
        _ = stream.turn
    assert [piece.text async for piece in stream if piece.text] == ["One", " two."]
    assert stream.turn.text == "One two."
    assert [piece async for piece in stream] == []


async def test_leaving_the_loop_keeps_the_partial_reply() -> None:
    store = Recorder()
    talk, chat, _ = conversation(Hang(("One", " two")), "Next.", store=store)
    async for piece in talk.stream("Hi"):
        if piece.text == " two":
            break
    gc.collect()
    await talk.send("And?")
    assert chat.texts == ["Hello.", "Hi", "One two", "And?", "Next."]
    assert ["Hello.", "Hi", "One two"] in store.all


async def test_cancelling_the_reader_keeps_the_partial_reply() -> None:
    store = Recorder()
    talk, _, _ = conversation(Hang(("One",)), store=store)
    started = asyncio.Event()

    async def read() -> None:
        async for _ in talk.stream("Hi"):
            started.set()

    reader = asyncio.create_task(read())
    await started.wait()
    reader.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reader
    assert store.all[-1] == ["Hello.", "Hi", "One"]
    assert talk.last is not None
    assert talk.last.text == "One"


async def test_a_broken_stream_raises_and_keeps_the_partial_reply() -> None:
    store = Recorder()
    talk, _, _ = conversation(Disconnect(("One",)), store=store)
    with pytest.raises(ModelError):
        async for _ in talk.stream("Hi"):
            pass
    assert store.all[-1] == ["Hello.", "Hi", "One"]


async def test_a_stream_that_is_not_read_does_nothing() -> None:
    talk, chat, model = conversation("One.")
    await talk.stream("Hi").aclose()
    assert "".join([piece.text async for piece in talk.stream("Hi")]) == "One."
    assert len(model.requests) == 1
    assert chat.texts == ["Hello.", "Hi", "One."]


async def test_operations_wait_for_each_other() -> None:
    talk, chat, _ = conversation("One.", "Two.", "Three.")
    await asyncio.gather(talk.send("1"), talk.send("2"), talk.edit(0, "Edited."), talk.send("3"))
    assert chat.texts == ["Edited.", "1", "One.", "2", "Two.", "3", "Three."]


async def test_an_operation_inside_a_stream_is_refused_instead_of_waiting_for_ever() -> None:
    talk, _, _ = conversation(streamed("One", " two."), "Next.")
    stream = talk.stream("Hi")
    async for _ in stream:
        with pytest.raises(ConversationBusyError, match="close the stream"):
            await talk.send("Now?")
        with pytest.raises(ConversationBusyError, match="close the stream"):
            await anext(talk.stream("Now?"))
        break
    await stream.aclose()
    assert (await talk.send("Now?")).text == "Next."


async def test_a_tool_cannot_start_another_turn() -> None:
    async def ask() -> str:
        """Ask."""
        await talk.send("?")
        return "never"

    model = ScriptedModel(calls(tool_call("ask")), "Done.")
    chat = FakeChat()
    talk = Conversation(chat, model=model, tools=[ask])
    await talk.send("Hi")
    assert chat.lines[1]["failed"] is True


async def test_tools_are_functions_with_types() -> None:
    def roll(sides: int) -> str:
        """Roll a die."""
        return f"You rolled {sides}."

    def weather() -> dict[str, int]:
        """Look out of the window."""
        return {"degrees": 3}

    script = (
        calls(tool_call("roll", {"sides": 6}), tool_call("weather")),
        calls(tool_call("roll", {"sides": "x"})),
        "So.",
    )
    chat = FakeChat()
    talk = Conversation(chat, model=ScriptedModel(*script), tools=[roll, weather])
    await talk.send("Roll!")
    assert chat.texts[1:3] == ["You rolled 6.", '{"degrees": 3}']
    assert chat.lines[3]["failed"] is True
    assert "integer" in str(chat.lines[3]["text"])
    with pytest.raises(ConfigError, match="a function or a toolset"):
        Conversation(FakeChat(), tools=[3])  # pyright: ignore[reportArgumentType]


async def test_undo_goes_back_one_operation_at_a_time() -> None:
    store = Recorder()
    talk, chat, _ = conversation("One.", failure(500), store=store)
    await talk.send("Hi")
    await talk.edit(0, "Edited.")
    with pytest.raises(ModelError):
        await talk.send("Again")
    await talk.edit(0, "Edited.")  # changes nothing, and is not undone
    assert chat.texts == ["Edited.", "Hi", "One.", "Again"]
    assert await talk.undo()
    assert chat.texts == ["Edited.", "Hi", "One."]
    assert await talk.undo()
    assert chat.texts == ["Hello.", "Hi", "One."]
    assert await talk.undo()
    assert not await talk.undo()
    assert store.all[-1] == ["Hello."]


async def test_undo_is_bounded() -> None:
    talk = Conversation(FakeChat("a"), undo_limit=2)
    for text in "bcd":
        await talk.edit(0, text)
    assert [await talk.undo() for _ in range(3)] == [True, True, False]
    assert talk.lines[0]["text"] == "b"


async def test_a_branch_is_a_conversation_of_its_own() -> None:
    talk, chat, _ = conversation("One.", "Other.")
    await talk.send("Hi")
    branch = await talk.branch(1)
    await branch.send("")
    assert [line["text"] for line in branch.lines] == ["Hello.", "Hi", "", "Other."]
    assert chat.texts == ["Hello.", "Hi", "One."]
    assert branch.store.load() is not None


async def test_usage_adds_up_with_cached_tokens() -> None:
    first = answer(
        "One.", usage={"prompt_tokens": 10, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}}
    )
    second = answer(
        "Two.", usage={"prompt_tokens": 20, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 8}}
    )
    talk, _, _ = conversation(first, second)
    assert talk.usage == Usage()
    await talk.send("1")
    await talk.send("2")
    assert (talk.usage.input_tokens, talk.usage.output_tokens, talk.usage.cached_tokens) == (30, 5, 12)


async def test_nothing_is_asked_when_the_message_cannot_be_saved() -> None:
    class Full(MemoryStore):
        def save(self, chat: SavedChat) -> None:
            raise StoreError("no space left on device")

    talk, chat, model = conversation("One.", store=Full())
    with pytest.raises(StoreError, match="no space"):
        await talk.send("Hi")
    assert model.requests == []
    assert chat.texts == ["Hello.", "Hi"]
    talk.store = MemoryStore()
    await talk.save()
    assert talk.store.load() is not None


async def test_options_go_over_the_presets() -> None:
    model = ScriptedModel("One.")
    await Conversation(FakeChat(), model=model, options={"temperature": 0.25}).send("Hi")
    assert model.requests[0]["temperature"] == 0.25


async def test_closing_ends_streams_and_refuses_more() -> None:
    store = Recorder()
    talk, _, _ = conversation(Hang(("One",)), store=store)
    async with talk:
        stream = talk.stream("Hi")
        await anext(stream)
    assert store.all[-1] == ["Hello.", "Hi", "One"]
    with pytest.raises(ConfigError, match="closed"):
        await talk.send("Again")


async def test_a_conversation_without_a_model_can_be_read_and_changed(tmp_path) -> None:
    talk = Conversation(FakeChat("Hello."), store=FileStore(tmp_path / "a.json"))
    assert [message.content for message in talk.preview("Hi").messages] == ["Hello.", "Hi"]
    await talk.edit(0, "Edited.")
    with pytest.raises(ConfigError, match="no model"):
        await talk.send("Hi")


def test_the_blocking_twin_does_the_same() -> None:
    talk, chat, _ = conversation("One.", streamed("Two", "."), Hang(("Three",)), "Four.")
    with talk.blocking() as blocking:
        assert (blocking.chat is chat, blocking.can_undo) == (True, False)
        assert blocking.send("1").text == "One."
        assert blocking.can_undo
        assert "".join(piece.text for piece in blocking.stream("2")) == "Two."
        for piece in blocking.stream("3"):
            if piece.text:
                break
        assert chat.texts[-1] == "Three"
        assert blocking.undo()
        blocking.edit(0, "Edited.")
        assert blocking.branch(0).lines[0]["text"] == "Edited."
        assert blocking.quiet("?").text == "Four."
    with pytest.raises(ConfigError, match="closed"):
        blocking.send("5")


def test_a_blocking_operation_while_a_stream_is_held_open_is_refused_at_once() -> None:
    talk, chat, model = conversation(Hang(("One",)), "Two.", "Three.")
    with talk.blocking() as blocking:
        stream = blocking.stream("1")
        assert next(piece.text for piece in stream if piece.text) == "One"
        for operation in (blocking.undo, blocking.regenerate, lambda: blocking.edit(0, "x"), blocking.save):
            with pytest.raises(ConversationBusyError, match="still being read"):
                operation()
        with pytest.raises(ConversationBusyError, match="still being read"):
            next(blocking.stream("2"))
        stream.close()
        assert chat.texts[-1] == "One"
        assert blocking.send("2").text == "Two."
        held = blocking.stream("3")
        next(held)
    assert len(model.requests) == 3  # closing does not wait for a stream that is held


def test_another_thread_waits_for_a_stream_to_end() -> None:
    talk, chat, _ = conversation(streamed("One", "."), "Two.")
    with talk.blocking() as blocking, ThreadPoolExecutor(1) as threads:
        stream = blocking.stream("1")
        next(stream)
        waiting = threads.submit(blocking.send, "2")
        assert "".join(piece.text for piece in stream).endswith(".")
        assert waiting.result(timeout=30).text == "Two."
    assert chat.texts[-4:] == ["1", "One.", "2", "Two."]


async def test_lines_count_from_either_end_and_must_be_there() -> None:
    talk = Conversation(FakeChat("a", "b"))
    await talk.edit(-2, "c")
    assert [line["text"] for line in talk.lines] == ["c", "b"]
    for work in (
        talk.edit(2, "x"),
        talk.delete(-3),
        talk.delete_from(5),
        talk.hide(0, 7),
        talk.unhide(9),
        talk.branch(2),
    ):
        with pytest.raises(ConfigError, match="there is no line"):
            await work


@pytest.mark.parametrize(
    ("work", "told"),
    [
        (lambda talk: talk.edit(0, None), "text must be text"),
        (lambda talk: talk.edit("0", "x"), "index must be a whole number"),
        (lambda talk: talk.choose_greeting("1"), "index must be a whole number"),
        (lambda talk: talk.swipe("up"), "direction must be one of left, right"),
        (lambda talk: talk.send("Look!", attachments="a.png"), "attachments must be a list"),
    ],
)
async def test_operations_say_what_to_pass(work: Callable[[Conversation], Awaitable[object]], told: str) -> None:
    talk, chat, _ = conversation()
    with pytest.raises(ConfigError, match=told):
        await work(talk)
    assert chat.texts == ["Hello."]


def interrupt_next_wait(monkeypatch: pytest.MonkeyPatch, when: threading.Event | None = None) -> None:
    """The user presses Ctrl+C while something is waited for."""
    wait = _Call[Any].wait

    def interrupted(_: _Call[Any]) -> None:
        assert when is None or when.wait(5)
        monkeypatch.setattr(_Call, "wait", wait)
        raise KeyboardInterrupt

    monkeypatch.setattr(_Call, "wait", interrupted)


def test_an_interrupt_between_two_pieces_ends_the_reply(monkeypatch: pytest.MonkeyPatch) -> None:
    talk, chat, _ = conversation(Hang(("One",)), "Next.")
    with talk.blocking() as blocking:
        pieces = blocking.stream("Hi")
        assert next(pieces).text == "One"
        interrupt_next_wait(monkeypatch)
        with pytest.raises(KeyboardInterrupt):
            next(pieces)
        assert chat.texts == ["Hello.", "Hi", "One"]
        assert blocking.send("And?").text == "Next."


def test_an_interrupted_operation_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = threading.Event()

    def hang(_: object) -> Hang:
        asked.set()
        return Hang()

    talk, chat, _ = conversation(hang, "Next.")
    with talk.blocking() as blocking:
        interrupt_next_wait(monkeypatch, asked)
        with pytest.raises(KeyboardInterrupt):
            blocking.send("Hi")
        assert chat.texts[:2] == ["Hello.", "Hi"]
        assert blocking.send("And?").text == "Next."


def test_an_async_tool_cannot_call_the_blocking_form() -> None:
    async def ask() -> str:
        """Ask."""
        with pytest.raises(ConfigError, match="cannot call its blocking methods"):
            blocking.close()
        return blocking.quiet("?").text

    chat = FakeChat()
    model = ScriptedModel(calls(tool_call("ask")), "Done.")
    with Conversation(chat, model=model, tools=[ask]).blocking() as blocking:
        blocking.send("Hi")
    assert chat.lines[1]["failed"] is True
    assert "cannot call its blocking methods" in str(chat.lines[1]["text"])


def test_closing_ends_the_thread_even_if_the_model_cannot_be_closed() -> None:
    class Broken(ScriptedModel):
        async def aclose(self) -> None:
            raise OSError("connection lost")

    blocking = Conversation(FakeChat("Hello."), model=Broken()).blocking()
    with pytest.raises(OSError, match="connection lost"):
        blocking.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "tavernkit-conversation"]
    blocking.close()


def test_a_tool_that_exits_the_program_exits_it() -> None:
    def leave() -> str:
        """Leave."""
        sys.exit(3)

    model = ScriptedModel(calls(tool_call("leave")), "Done.")
    with Conversation(FakeChat(), model=model, tools=[leave]).blocking() as blocking:
        with pytest.raises(SystemExit):
            blocking.send("Hi")
        assert blocking.send("Again?").text == "Done."


async def test_a_conversation_puts_the_providers_report_beside_the_predicted_cache() -> None:
    card = tk.Character(name="Aria", description="Keeps the light. " * 300)
    chat = tk.Conversation.open(card=card, model=ScriptedModel(answer("One.", usage=usage(900, 2)), "Two."))
    chat.cache = PromptCache("openai")
    await chat.send("Hi")
    await chat.send("And?")
    first, second = chat.cache.report.turns
    assert (first.cached_tokens, first.reported_tokens) == (0, 0)
    assert second.cached_tokens > 1000
    assert second.reported_tokens is None
