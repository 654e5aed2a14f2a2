"""Anthropic's protocol over a real connection."""

from __future__ import annotations

import asyncio
import logging
import traceback
from typing import Any

import pytest

from tavernkit._values import thaw
from tavernkit.models import (
    AnthropicModel,
    ConnectionFailedError,
    DecodeError,
    Endpoint,
    HTTPError,
    ModelError,
    ProviderError,
    Request,
    RequestTimeoutError,
    Usage,
    with_retries,
)
from tavernkit.testing import LoopbackServer
from tests.models.native_server import Wire, sent_json, serve_wire
from tests.models.support import body_request, pieces_of

KEY = "sk-ant-very-secret-key"
REQUEST: dict[str, Any] = {
    "model": "claude-test",
    "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}],
}
SHORT = Request.from_body(REQUEST)
ANSWER = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-test",
    "content": [{"type": "text", "text": "Hello."}],
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 10, "cache_read_input_tokens": 4, "output_tokens": 3},
}


def connect(server: LoopbackServer, warnings: list[str] | None = None, **fields: Any) -> AnthropicModel:
    endpoint = Endpoint(**{"base_url": server.url, "api_key": KEY, **fields})
    return AnthropicModel("", endpoint, warn=(warnings if warnings is not None else []).append)


def events(*texts: str, stop: bool = True) -> list[dict[str, Any]]:
    start = {"type": "message_start", "message": {"usage": {"input_tokens": 7, "output_tokens": 1}}}
    deltas = [
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}} for text in texts
    ]
    end = [
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 5}},
        {"type": "message_stop"},
    ]
    opened = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    return [start, {"type": "ping"}, opened, *deltas, *(end if stop else [])]


async def test_answer_is_translated_both_ways() -> None:
    async with serve_wire(Wire(ANSWER)) as server:
        client = connect(server)
        request = {**REQUEST, "stop": "END", "max_completion_tokens": 50, "temperature": 0.3, "user": "u1"}
        reply = await client.send(body_request(request))
        await client.aclose()
    assert sent_json(server) == {
        "model": "claude-test",
        "system": "Be brief.",
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
        "max_tokens": 50,
        "stop_sequences": ["END"],
        "temperature": 0.3,
        "metadata": {"user_id": "u1"},
    }
    assert server.requests[0].path == "/v1/messages"
    headers = server.requests[0].headers
    assert KEY in (headers.get("x-api-key") or headers["authorization"])
    assert (reply.text, reply.finish_reason, reply.model) == ("Hello.", "stop", "claude-test")
    assert reply.usage == Usage(input_tokens=14, output_tokens=3, cached_tokens=4, reported=True)
    assert reply.raw["id"] == "msg_1"


async def test_tools_and_their_results_are_translated() -> None:
    tool = {"type": "function", "function": {"name": "roll", "description": "d", "parameters": {"type": "object"}}}
    call = {"id": "t1", "type": "function", "function": {"name": "roll", "arguments": '{"sides":6}'}}
    messages = [
        {"role": "user", "content": "roll"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": '{"ok":false}', "tool_call_id": "t1"},
    ]
    answer = {
        **ANSWER,
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": "sig"},
            {"type": "tool_use", "id": "t2", "name": "roll", "input": {"sides": 20}},
        ],
        "stop_reason": "tool_use",
    }
    async with serve_wire(Wire(answer)) as server:
        client = connect(server)
        request = {"model": "m", "messages": messages, "tools": [tool], "tool_choice": "required"}
        reply = await client.send(body_request({**request, "parallel_tool_calls": False}))
        await client.aclose()
    native = sent_json(server)
    assert native["tools"] == [{"name": "roll", "description": "d", "input_schema": {"type": "object"}}]
    assert native["tool_choice"] == {"type": "any", "disable_parallel_tool_use": True}
    assert native["messages"][1]["content"] == [{"type": "tool_use", "id": "t1", "name": "roll", "input": {"sides": 6}}]
    assert native["messages"][2]["content"][0]["is_error"] is True
    assert reply.finish_reason == "tool_calls"
    assert [(call.id, call.name, call.arguments) for call in reply.tool_calls] == [("t2", "roll", '{"sides":20}')]
    assert reply.reasoning == "hm"
    thinking = [{"type": "thinking", "thinking": "hm", "signature": "sig"}]
    assert reply.to_dict()["thinking"] == thinking
    assert thaw(reply.to_message().metadata) == {
        "thinking": thinking,
        "tool_calls": [{"id": "t2", "type": "function", "function": {"name": "roll", "arguments": '{"sides":20}'}}],
    }


async def test_options_the_api_does_not_know_are_named_and_left_out() -> None:
    warnings: list[str] = []
    async with serve_wire(Wire(ANSWER)) as server:
        client = connect(server, warnings)
        await client.send(body_request({**REQUEST, "logit_bias": {"1": 2}, "frequency_penalty": 1}))
        await client.aclose()
    assert "frequency_penalty" not in sent_json(server)
    assert warnings == ["Anthropic does not take frequency_penalty, logit_bias: left out of the request"]


async def test_stream_arrives_in_pieces_with_usage() -> None:
    thinking = [
        {"type": "content_block_start", "index": 9, "content_block": {"type": "thinking", "thinking": ""}},
        {"type": "content_block_delta", "index": 9, "delta": {"type": "thinking_delta", "thinking": "hm"}},
        {"type": "content_block_delta", "index": 9, "delta": {"type": "signature_delta", "signature": "sig"}},
    ]
    script = events("Hel", "lo.")
    async with serve_wire(Wire(events=[script[0], *thinking, *script[1:]])) as server:
        client = connect(server)
        pieces = await pieces_of(client, SHORT)
        await client.aclose()
    assert [piece.text for piece in pieces if piece.text] == ["Hel", "lo."]
    assert "".join(piece.reasoning for piece in pieces) == "hm"
    assert pieces[-1].finish_reason == "stop"
    assert pieces[-1].usage == Usage(input_tokens=7, output_tokens=5, reported=True)
    assert thaw(pieces[-1].extra) == {"thinking": [{"type": "thinking", "thinking": "hm", "signature": "sig"}]}
    assert sent_json(server)["stream"] is True


@pytest.mark.parametrize("status", [400, 401, 429, 500, 529])
async def test_error_status_carries_what_the_provider_says(status: int) -> None:
    body = {"type": "error", "error": {"type": "some_error", "message": "not today"}}
    async with serve_wire(Wire(body, status=status), Wire(body, status=status)) as server:
        client = connect(server)
        with pytest.raises(HTTPError, match="not today") as caught:
            await client.send(SHORT)
        with pytest.raises(HTTPError, match="not today"):
            await pieces_of(client, SHORT)
        await client.aclose()
    assert caught.value.status == status


async def test_overload_is_retried_when_retries_are_allowed() -> None:
    busy = Wire({"error": {"message": "busy"}}, status=529)
    async with serve_wire(busy, Wire(ANSWER)) as server:
        client = with_retries(connect(server), retries=1, backoff=lambda _: 0)
        assert (await client.send(SHORT)).text == "Hello."
        await client.aclose()


async def test_error_event_ends_the_stream() -> None:
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    async with serve_wire(Wire(events=[*events("par", stop=False), error])) as server:
        client = connect(server)
        with pytest.raises(ProviderError, match="Overloaded"):
            await pieces_of(client, SHORT)
        await client.aclose()


async def test_silence_is_a_timeout() -> None:
    async with serve_wire(Wire(hang=True), Wire(events=events("a", stop=False), hang=True)) as server:
        client = connect(server, read_timeout=0.3)
        with pytest.raises(RequestTimeoutError):
            await client.send(SHORT)
        received: list[str] = []
        with pytest.raises(RequestTimeoutError):
            await pieces_of(client, SHORT, received)
        await client.aclose()
    assert "".join(received) == "a"


async def test_broken_and_cut_streams_are_told() -> None:
    cut = Wire(events=events("a", stop=False))
    dropped = Wire(events=events("a", stop=False), drop=True)
    async with serve_wire(cut, dropped, Wire(raw=b"event: content_block_delta\ndata: {broken\n\n")) as server:
        client = connect(server)
        with pytest.raises(ConnectionFailedError, match="before the reply"):
            await pieces_of(client, SHORT)
        with pytest.raises(ConnectionFailedError):
            await pieces_of(client, SHORT)
        with pytest.raises(DecodeError):
            await pieces_of(client, SHORT)
        await client.aclose()


@pytest.mark.parametrize("streaming", [False, True])
async def test_cancelling_leaves_nothing_running(streaming: bool) -> None:
    before = asyncio.all_tasks()
    wire = Wire(events=events("a", stop=False), hang=True) if streaming else Wire(hang=True)
    async with serve_wire(wire) as server:
        client = connect(server)
        task = asyncio.create_task(pieces_of(client, SHORT) if streaming else client.send(SHORT))
        async with asyncio.timeout(5):
            await server.received.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await server.hung_up.wait()
        await client.aclose()
    assert asyncio.all_tasks() <= before


async def test_secrets_never_leave_the_model(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    echo = {"error": {"message": f"invalid x-api-key {KEY}"}}
    errors: list[ModelError] = []
    async with serve_wire(Wire(echo, status=401), Wire(events=[{"type": "error", **echo}])) as server:
        client = connect(server)
        for attempt in (client.send(SHORT), pieces_of(client, SHORT)):
            with pytest.raises(ModelError) as caught:
                await attempt
            errors.append(caught.value)
        await client.aclose()
    for error in errors:
        told = "".join(traceback.format_exception(error)) + repr(vars(error)) + repr(error.__context__)
        assert KEY not in told
        assert "[redacted]" in str(error)
    assert KEY not in caplog.text


async def test_tool_calls_stream_as_deltas() -> None:
    def block(index: int, name: str) -> dict[str, Any]:
        opened = {"type": "tool_use", "id": f"c{index}", "name": name, "input": {}}
        return {"type": "content_block_start", "index": index, "content_block": opened}

    def fragment(text: str) -> dict[str, Any]:
        delta = {"type": "input_json_delta", "partial_json": text}
        return {"type": "content_block_delta", "index": 1, "delta": delta}

    start, *rest = events("Let me see.")
    end = [{"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {}}, {"type": "message_stop"}]
    first = [block(1, "roll"), fragment(""), fragment('{"sides"'), fragment(": 6}")]
    second = [{"type": "content_block_stop", "index": 1}, block(2, "wait"), {"type": "content_block_stop", "index": 2}]
    async with serve_wire(Wire(events=[start, *rest[:-2], *first, *second, *end])) as server:
        client = connect(server)
        pieces = await pieces_of(client, SHORT)
        await client.aclose()
    deltas = [delta for piece in pieces for delta in piece.tool_calls]
    assert [(each.index, each.id, each.name, each.arguments) for each in deltas] == [
        (0, "c1", "roll", ""),
        (0, None, None, '{"sides"'),
        (0, None, None, ": 6}"),
        (1, "c2", "wait", ""),
        (1, None, None, "{}"),
    ]
    assert pieces[-1].finish_reason == "tool_calls"
