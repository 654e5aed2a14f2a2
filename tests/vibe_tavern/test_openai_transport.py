"""OpenAI's protocol over a real connection: answers, streams, and everything that goes wrong with them."""

from __future__ import annotations

import asyncio
import json
import logging
import traceback
from typing import Any

import pytest

from tavernkit.testing import (
    Answer,
    Body,
    Disconnect,
    Hang,
    LoopbackServer,
    RawBytes,
    ScriptedModel,
    answer,
    failure,
    serve,
    streamed,
    usage,
)
from tavernkit.vibe_tavern.errors import (
    ConnectionFailedError,
    DecodeError,
    HTTPError,
    RequestTimeoutError,
    StreamError,
    TransportError,
)
from tavernkit.vibe_tavern.transports.base import ChatChunk
from tavernkit.vibe_tavern.transports.endpoint import Endpoint
from tavernkit.vibe_tavern.transports.openai import OpenAITransport
from tests.vibe_tavern.support import loose, sent

REQUEST: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
KEY = "sk-very-secret-key-123"


def transport(server: LoopbackServer, **fields: Any) -> OpenAITransport:
    return OpenAITransport(Endpoint(**{"base_url": server.url, "max_retries": 0, **fields}))


async def collect(
    client: OpenAITransport, request: dict[str, Any] | None = None, received: list[str] | None = None
) -> list[ChatChunk]:
    collected: list[ChatChunk] = []
    async with client.stream(request or REQUEST) as chunks:
        async for chunk in chunks:
            collected.append(chunk)
            if received is not None:
                received.append(chunk.text)
    return collected


def text_of(chunks: list[ChatChunk]) -> str:
    return "".join(chunk.text for chunk in chunks)


def sse(*events: object, done: bool = True) -> RawBytes:
    blocks = [f"data: {json.dumps(event)}\n\n".encode() for event in events]
    return RawBytes([*blocks, *([b"data: [DONE]\n\n"] if done else [])])


def delta(text: str, finish_reason: str | None = None) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": finish_reason}]}


async def test_answer_comes_back_whole_with_what_was_sent() -> None:
    model = ScriptedModel(answer("Hello.", usage=usage(3, 2)))
    async with serve(model) as server:
        client = transport(server, api_key=KEY, headers={"X-Title": "tavern"})
        response = await client.complete({**REQUEST, "temperature": 0.5, "custom_field": {"a": 1}})
        await client.aclose()
    assert loose(response.body)["choices"][0]["message"]["content"] == "Hello."
    assert loose(response.body)["usage"]["total_tokens"] == 5
    assert model.requests[0] == {**REQUEST, "temperature": 0.5, "custom_field": {"a": 1}}
    assert server.requests[0].path == "/v1/chat/completions"
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert server.requests[0].headers["x-title"] == "tavern"


async def test_unknown_fields_of_the_answer_are_kept() -> None:
    body: Any = {"choices": [{"message": {"content": "x", "reasoning_content": "why", "odd": 1}}], "vendor": {"a": 1}}
    async with serve(ScriptedModel(Body(body))) as server:
        client = transport(server)
        assert (await client.complete(REQUEST)).body == body
        await client.aclose()


async def test_stream_arrives_in_pieces_with_usage() -> None:
    model = ScriptedModel(streamed("Hel", "lo ", "wörld", usage=usage(3, 2)))
    async with serve(model) as server:
        client = transport(server)
        chunks = await collect(client, {**REQUEST, "stream_options": {"include_usage": True}})
        await client.aclose()
    assert [chunk.text for chunk in chunks if chunk.text] == ["Hel", "lo ", "wörld"]
    assert chunks[-1].usage == usage(3, 2)
    assert [chunk.finish_reason for chunk in chunks if chunk.finish_reason] == ["stop"]
    assert model.requests[0]["stream"] is True


async def test_reasoning_and_refusal_are_told_apart_from_text() -> None:
    events = [
        {"choices": [{"delta": {"reasoning_content": "hm"}}]},
        {"choices": [{"delta": {"reasoning": "m"}}]},
        {"choices": [{"delta": {"refusal": "no"}}]},
        delta("x", "stop"),
    ]
    async with serve(ScriptedModel(sse(*events))) as server:
        client = transport(server)
        chunks = await collect(client)
        await client.aclose()
    assert "".join(chunk.reasoning for chunk in chunks) == "hmm"
    assert "".join(chunk.refusal for chunk in chunks) == "no"
    assert text_of(chunks) == "x"


@pytest.mark.parametrize(
    "portions",
    [
        pytest.param([b"data: " + json.dumps(delta("h\u00e9", "stop")).encode() + b"\r\n\r\n"], id="crlf"),
        pytest.param(
            [b": comment\nevent: x\ndata:" + json.dumps(delta("h\u00e9", "stop")).encode() + b"\n\n"], id="comments"
        ),
        pytest.param([b"data: " + json.dumps(delta("h\u00e9", "stop")).encode()], id="last block without a blank line"),
        pytest.param(
            [
                bytes([byte])
                for byte in b"data: " + json.dumps(delta("hé", "stop"), ensure_ascii=False).encode() + b"\n\n"
            ],
            id="byte by byte",
        ),
    ],
)
async def test_stream_framing_is_read_tolerantly(portions: list[bytes]) -> None:
    async with serve(ScriptedModel(RawBytes(portions))) as server:
        client = transport(server)
        assert text_of(await collect(client)) == "hé"
        await client.aclose()


async def test_json_instead_of_a_stream_is_one_chunk() -> None:
    body: Any = {"choices": [{"message": {"content": "all at once"}, "finish_reason": "stop"}], "usage": usage(1, 2)}
    async with serve(ScriptedModel(Body(body))) as server:
        client = transport(server)
        chunks = await collect(client)
        await client.aclose()
    assert [(chunk.text, chunk.finish_reason) for chunk in chunks] == [("all at once", "stop")]
    assert chunks[0].usage == usage(1, 2)


async def test_server_that_cannot_stream_is_asked_again_without() -> None:
    warnings: list[str] = []
    model = ScriptedModel(failure(400, "Streaming is not supported yet"), "plain")
    async with serve(model) as server:
        client = OpenAITransport(Endpoint(base_url=server.url, max_retries=0), warn=warnings.append)
        assert text_of(await collect(client)) == "plain"
        await client.aclose()
    assert "stream" not in model.requests[1]
    assert len(warnings) == 1


@pytest.mark.parametrize(
    ("status", "message"), [(400, "bad"), (401, "who?"), (429, "slow down"), (500, "oops"), (503, "")]
)
async def test_error_status_carries_what_the_provider_says(status: int, message: str) -> None:
    async with serve(ScriptedModel(failure(status, message), failure(status, message))) as server:
        client = transport(server)
        with pytest.raises(HTTPError) as caught:
            await client.complete(REQUEST)
        with pytest.raises(HTTPError):
            await collect(client)
        await client.aclose()
    assert caught.value.status == status
    assert str(caught.value) == (message or f"HTTP {status}")
    assert caught.value.body == {"error": {"message": message}}


async def test_error_body_that_is_no_json_is_kept_raw() -> None:
    async with serve(ScriptedModel(RawBytes([b"<html>bad gateway</html>"], "text/html", 502))) as server:
        client = transport(server)
        with pytest.raises(HTTPError) as caught:
            await client.complete(REQUEST)
        await client.aclose()
    assert (caught.value.status, caught.value.body) == (502, None)
    assert caught.value.raw_body == "<html>bad gateway</html>"


async def test_rate_limit_is_retried_when_retries_are_allowed() -> None:
    model = ScriptedModel(failure(429, "slow down", retry_after_ms="1"), failure(500, "oops", retry_after_ms="1"), "ok")
    async with serve(model) as server:
        client = transport(server, max_retries=2)
        body = loose((await client.complete(REQUEST)).body)
        await client.aclose()
    assert body["choices"][0]["message"]["content"] == "ok"
    assert len(model.requests) == 3


async def test_silence_is_a_timeout() -> None:
    async with serve(ScriptedModel(Hang(), Hang(after=["a"]))) as server:
        client = transport(server, read_timeout=0.3)
        with pytest.raises(RequestTimeoutError) as caught:
            await client.complete(REQUEST)
        assert isinstance(caught.value, TimeoutError)
        received: list[str] = []
        with pytest.raises(RequestTimeoutError):
            await collect(client, received=received)
        assert "".join(received) == "a"
        await client.aclose()


async def test_broken_connections_are_told() -> None:
    async with serve(ScriptedModel(Disconnect(), Disconnect(after=["a", "b"]))) as server:
        client = transport(server)
        with pytest.raises(ConnectionFailedError) as caught:
            await client.complete(REQUEST)
        assert isinstance(caught.value, ConnectionError)
        with pytest.raises(ConnectionFailedError):
            await collect(client)
        await client.aclose()


async def test_nobody_listening_is_a_failed_connection() -> None:
    async with serve(ScriptedModel()) as server:
        url = server.url
    client = OpenAITransport(Endpoint(base_url=url, max_retries=0))
    with pytest.raises(ConnectionFailedError):
        await client.complete(REQUEST)
    await client.aclose()


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(RawBytes([b"data: {broken\n\n"]), id="broken JSON"),
        pytest.param(RawBytes([b"data: [1]\n\n"]), id="no object"),
        pytest.param(RawBytes([b'data: {"a": NaN}\n\n']), id="not strict JSON"),
    ],
)
async def test_malformed_chunk_is_a_decode_error(reply: RawBytes) -> None:
    async with serve(ScriptedModel(reply)) as server:
        client = transport(server)
        with pytest.raises(DecodeError):
            await collect(client)
        await client.aclose()


async def test_malformed_answer_is_a_decode_error() -> None:
    async with serve(ScriptedModel(RawBytes([b"not json"], "application/json"))) as server:
        client = transport(server)
        with pytest.raises(DecodeError, match="not json"):
            await client.complete(REQUEST)
        await client.aclose()


async def test_error_object_inside_a_stream_ends_it() -> None:
    script = sse(delta("par"), {"error": {"message": "overloaded", "code": 529}})
    async with serve(ScriptedModel(script)) as server:
        client = transport(server)
        with pytest.raises(StreamError, match="overloaded"):
            await collect(client)
        await client.aclose()


async def test_stream_that_just_ends_is_noticed() -> None:
    async with serve(ScriptedModel(sse(delta("half an ans"), done=False))) as server:
        client = transport(server)
        with pytest.raises(ConnectionFailedError, match="before the answer"):
            await collect(client)
        await client.aclose()


async def test_leaving_a_stream_ends_the_request() -> None:
    async with serve(ScriptedModel(Hang(after=["a"]))) as server:
        client = transport(server)
        async with client.stream(REQUEST) as chunks:
            async for chunk in chunks:
                if chunk.text:
                    break
        async with asyncio.timeout(5):
            await server.hung_up.wait()
        await client.aclose()
    assert server.hang_ups == 1


@pytest.mark.parametrize("streaming", [False, True])
async def test_cancelling_leaves_nothing_running(streaming: bool) -> None:
    before = asyncio.all_tasks()
    async with serve(ScriptedModel(Hang(after=["a"]))) as server:
        client = transport(server)
        task = asyncio.create_task(collect(client) if streaming else client.complete(REQUEST))
        async with asyncio.timeout(5):
            await server.received.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await server.hung_up.wait()
        await client.aclose()
    assert asyncio.all_tasks() <= before


async def test_secrets_never_leave_the_transport(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    echo = f"Incorrect API key provided: {KEY}"
    replies = [failure(401, echo), sse({"error": {"message": echo}}), RawBytes([f"data: {KEY}\n\n".encode()])]
    errors: list[TransportError] = []
    async with serve(ScriptedModel(*replies)) as server:
        client = transport(server, api_key=KEY, headers={"X-Session-Token": "tok-42-secret"})
        for attempt in (client.complete(REQUEST), collect(client), collect(client)):
            with pytest.raises(TransportError) as caught:
                await attempt
            errors.append(caught.value)
        await client.aclose()
    assert isinstance(errors[0], HTTPError)
    for error in errors:
        told = "".join(traceback.format_exception(error)) + repr(vars(error)) + repr(error.__context__)
        assert KEY not in told
        assert "[redacted]" in str(error)
    assert KEY not in repr(client.endpoint)
    assert "tok-42-secret" not in repr(client.endpoint)
    assert KEY not in caplog.text


async def test_wire_gets_what_openai_accepts() -> None:
    schema = {"type": "object", "additionalProperties": True}
    request: dict[str, Any] = {
        **REQUEST,
        "parallel_tool_calls": False,
        "response_format": {"type": "json_schema", "json_schema": {"name": "n", "strict": True, "schema": schema}},
    }
    model = ScriptedModel("ok")
    async with serve(model) as server:
        client = transport(server)
        await client.complete(request)
        await client.aclose()
    assert "parallel_tool_calls" not in model.requests[0]
    assert sent(model)["response_format"]["json_schema"]["strict"] is False
    assert request["response_format"]["json_schema"]["strict"] is True


async def test_answers_with_tool_calls_pass_unchanged() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    async with serve(ScriptedModel(Answer(tool_calls=[call]))) as server:
        client = transport(server)
        body = loose((await client.complete(REQUEST)).body)
        await client.aclose()
    assert body["choices"][0]["message"]["tool_calls"] == [call]
    assert body["choices"][0]["finish_reason"] == "tool_calls"
