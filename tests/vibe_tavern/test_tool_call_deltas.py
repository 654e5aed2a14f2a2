"""Tool calls in pieces."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tavernkit.testing import RawBytes, ScriptedModel, calls, serve, tool_call
from tavernkit.vibe_tavern import Endpoint, OpenAITransport, ToolCallDelta, ToolCalls, chat
from tavernkit.vibe_tavern.transports.tool_call_deltas import read_deltas


def assembled(*deltas: ToolCallDelta) -> list[Any]:
    together = ToolCalls()
    for delta in deltas:
        together.add(delta)
    return together.assembled()


def test_fragments_of_several_calls_are_put_together() -> None:
    found = assembled(
        ToolCallDelta(0, id="a", name="roll"),
        ToolCallDelta(1, id="b", name="wait"),
        ToolCallDelta(0, arguments='{"sides"'),
        ToolCallDelta(0, arguments=": 6}", extra={"signature": "s"}),
    )
    assert found == [
        {"id": "a", "type": "function", "function": {"name": "roll", "arguments": '{"sides": 6}'}, "signature": "s"},
        {"id": "b", "type": "function", "function": {"name": "wait", "arguments": "{}"}},
    ]


def test_calls_that_share_an_index_are_told_apart_by_their_ids() -> None:
    together = ToolCalls()
    placed = [together.add(ToolCallDelta(0, id=each, name=each, arguments="{}")) for each in ("a", "b")]
    assert [delta.index for delta in placed] == [0, 1]
    assert [call["id"] for call in together.assembled()] == ["a", "b"]


@pytest.mark.parametrize("streaming", [False, True])
async def test_a_chat_in_one_call_gives_the_calls(streaming: bool) -> None:
    called = tool_call("roll", {"sides": 6}, id="c1")
    on_delta = (lambda _: None) if streaming else None
    result = await chat(ScriptedModel(calls(called)), model="m", messages=[], on_delta=on_delta)
    assert result.tool_calls == (called,)
    assert result.finish_reason == "tool_calls"


def test_nothing_is_no_call() -> None:
    assert not ToolCalls()
    assert ToolCalls().assembled() == []


@pytest.mark.parametrize("junk", [None, "x", {}, [1, "a", None]])
def test_what_is_no_list_of_calls_gives_none(junk: Any) -> None:
    assert read_deltas(junk) == ()


def test_calls_that_are_not_as_they_should_be_are_read_tolerantly() -> None:
    odd: list[Any] = [{"function": None}, {"index": "0", "id": "", "function": {"name": 1, "arguments": {"a": 1}}}]
    first, second = read_deltas(odd)
    assert (first.index, first.id, first.name, first.arguments) == (0, None, None, "")
    assert (second.index, second.id, second.name, second.arguments) == (1, None, None, '{"a":1}')


async def test_openai_streams_deltas_of_calls() -> None:
    pieces = [
        {"tool_calls": [{"index": 0, "id": "a", "type": "function", "function": {"name": "roll", "arguments": ""}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"sides"'}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": ": 6}"}}]},
    ]
    events = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in pieces]
    events.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})
    raw = RawBytes([f"data: {json.dumps(event)}\n\n".encode() for event in events] + [b"data: [DONE]\n\n"])
    async with serve(ScriptedModel(raw)) as server:
        client = OpenAITransport(Endpoint(base_url=server.url))
        async with client.stream({"model": "m", "messages": []}) as chunks:
            deltas = [delta async for chunk in chunks for delta in chunk.tool_calls]
        await client.aclose()
    assert [delta.arguments for delta in deltas] == ["", '{"sides"', ": 6}"]
    assert assembled(*deltas)[0]["function"] == {"name": "roll", "arguments": '{"sides": 6}'}


def test_an_index_that_is_no_number_is_no_error() -> None:
    pieces = [{"index": index, "function": {"arguments": "{}"}} for index in (True, None, "x", 1.5)]
    assert [delta.index for delta in read_deltas([*pieces])] == [1, 1, 2, 3]
