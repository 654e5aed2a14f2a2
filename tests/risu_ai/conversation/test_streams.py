"""Streamed replies: which texts scripts see, how often they run, and where."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tavernkit.models._reply import Reply, ReplyPiece, ToolCall
from tavernkit.models.errors import ConnectionFailedError
from tavernkit.risu_ai import Chat, RisuCharacter
from tavernkit.risu_ai._conversation.asking import joined
from tavernkit.risu_ai._limits import MAX_SCRIPTED_PIECES
from tavernkit.risu_ai._state import RisuState
from tests.risu_ai.conversation.host import Answer, ScriptedHost

SCRIPT = {"type": "editoutput", "in": "o", "out": "0", "comment": "zero"}


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """The texts that went through the output scripts, and the threads in which they did."""
    edited: list[tuple[str, int]] = []
    edit = RisuState.edit_output

    def counted(self: RisuState, text: str, index: int) -> str:
        edited.append((text, threading.get_ident()))
        return edit(self, text, index)

    monkeypatch.setattr(RisuState, "edit_output", counted)
    return edited


def made(*answers: Answer, scripts: tuple[Any, ...] = (SCRIPT,)) -> Chat:
    character = {"chaId": "mira", "name": "Mira", "firstMessage": "Hi.", "customscript": [*scripts]}
    return Chat(host=ScriptedHost(*answers), character=RisuCharacter.from_json(character), warn=None)


def last(chat: Chat) -> object:
    return chat.lines[-1]["data"]


async def test_scripts_see_the_text_so_far_with_each_piece(seen: list[tuple[str, int]]) -> None:
    chat = made(["One", " or", " two"])
    assert (await chat.send("Count.")).text == "One 0r tw0"
    assert [text for text, _ in seen] == ["One", "One or", "One or two", "One or two"]


async def test_a_stream_of_many_pieces_runs_scripts_a_limited_number_of_times(seen: list[tuple[str, int]]) -> None:
    chat = made(["o"] * 5_001)
    await chat.send("Count.")
    assert last(chat) == "0" * 5_001
    assert MAX_SCRIPTED_PIECES // 2 < len(seen) <= MAX_SCRIPTED_PIECES + 1


async def test_the_thread_of_the_event_loop_runs_no_script(seen: list[tuple[str, int]]) -> None:
    await made(["One", " or", " two"]).send("Count.")
    assert threading.get_ident() not in {thread for _, thread in seen}


async def test_without_scripts_a_stream_is_stored_at_once(seen: list[tuple[str, int]]) -> None:
    chat = made(["One", " or", " two"], scripts=())
    await chat.send("Count.")
    assert [text for text, _ in seen] == ["One or two", "One or two"]
    assert last(chat) == "One or two"


async def test_macros_in_a_stream_see_the_text_so_far(seen: list[tuple[str, int]]) -> None:
    chat = made(["{{user}}", " two"], scripts=())
    await chat.send("Count.")
    assert [text for text, _ in seen] == ["{{user}}", "{{user}} two", "{{user}} two"]


async def test_a_broken_stream_goes_through_the_scripts() -> None:
    chat = made(["One or", " two", ConnectionFailedError("gone")])
    with pytest.raises(ConnectionFailedError):
        await chat.send("Count.")
    assert last(chat) == "One 0r tw0"


async def test_a_reply_may_end_with_a_tool() -> None:
    call = ToolCall(id="c1", name="dice", arguments="{}")

    class Host(ScriptedHost):
        async def ask(self, plan: Any, *, on_piece: Any = None) -> Reply:
            if not self.plans:
                on_piece(ReplyPiece(text="I roll."))
            self.plans.append(plan)
            return Reply(text="I roll.", tool_calls=(call,)) if len(self.plans) == 1 else Reply(text="")

    chat = made(scripts=())
    chat.host = Host()
    turn = await chat.send("Roll.")
    (mark,) = chat.tool_calls
    assert turn.text == f"I roll.<tool_call>{mark}</tool_call>"
    assert chat.chat.raw["isStreaming"] is False


@given(st.lists(st.text(max_size=3), max_size=1_000), st.booleans())
def test_joined_pieces_have_the_same_text(heard: list[str], scripted: bool) -> None:
    steps = joined(heard, scripted=scripted)
    assert "".join(steps) == "".join(heard)
    assert len(steps) <= (MAX_SCRIPTED_PIECES if scripted else 1)
    if scripted and len(heard) <= MAX_SCRIPTED_PIECES:
        assert steps == [piece for piece in heard if piece]
