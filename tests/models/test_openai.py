"""OpenAI's protocol over a real connection: answers, streams, and everything that goes wrong with them."""

from __future__ import annotations

import asyncio
import json
import logging
import traceback
from contextlib import aclosing
from typing import Any

import pytest

from tavernkit._values import freeze
from tavernkit.models import (
    ConnectionFailedError,
    DecodeError,
    Endpoint,
    HTTPError,
    ModelError,
    OpenAIModel,
    ProviderError,
    Request,
    RequestTimeoutError,
    ScriptedModel,
    Usage,
    with_retries,
)
from tavernkit.testing import (
    Answer,
    Body,
    Disconnect,
    Hang,
    LoopbackServer,
    RawBytes,
    answer,
    failure,
    serve,
    streamed,
    usage,
)
from tests.models.support import body_request, loose, pieces_of, text_of

REQUEST: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
SHORT = Request.from_body(REQUEST)
KEY = "sk-very-secret-key-123"


def connect(server: LoopbackServer, **fields: Any) -> OpenAIModel:
    return OpenAIModel("", Endpoint(**{"base_url": server.url, **fields}))


def sse(*events: object, done: bool = True) -> RawBytes:
    blocks = [f"data: {json.dumps(event)}\n\n".encode() for event in events]
    return RawBytes([*blocks, *([b"data: [DONE]\n\n"] if done else [])])


def delta(text: str, finish_reason: str | None = None) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": finish_reason}]}


async def test_answer_comes_back_whole_with_what_was_sent() -> None:
    model = ScriptedModel(answer("Hello.", usage=usage(3, 2)))
    async with serve(model) as server:
        client = connect(server, api_key=KEY, headers={"X-Title": "tavern"})
        response = await client.send(body_request({**REQUEST, "temperature": 0.5, "custom_field": {"a": 1}}))
        await client.aclose()
    assert (response.text, response.finish_reason, response.model) == ("Hello.", "stop", "m")
    assert response.usage == Usage(input_tokens=3, output_tokens=2, reported=True)
    assert model.requests[0] == {**REQUEST, "temperature": 0.5, "custom_field": {"a": 1}}
    assert server.requests[0].path == "/v1/chat/completions"
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert server.requests[0].headers["x-title"] == "tavern"


async def test_unknown_fields_of_the_answer_are_kept() -> None:
    body: Any = {"choices": [{"message": {"content": "x", "reasoning_content": "why", "odd": 1}}], "vendor": {"a": 1}}
    async with serve(ScriptedModel(Body(body))) as server:
        client = connect(server)
        assert (await client.send(SHORT)).raw == freeze(body)
        await client.aclose()


async def test_stream_arrives_in_pieces_with_usage() -> None:
    model = ScriptedModel(streamed("Hel", "lo ", "wörld", usage=usage(3, 2)))
    async with serve(model) as server:
        client = connect(server)
        pieces = await pieces_of(client, body_request({**REQUEST, "stream_options": {"include_usage": True}}))
        await client.aclose()
    assert [piece.text for piece in pieces if piece.text] == ["Hel", "lo ", "wörld"]
    assert pieces[-1].usage == Usage(input_tokens=3, output_tokens=2, reported=True)
    assert [piece.finish_reason for piece in pieces if piece.finish_reason] == ["stop"]
    assert model.requests[0]["stream"] is True


async def test_reasoning_and_refusal_are_told_apart_from_text() -> None:
    events = [
        {"choices": [{"delta": {"reasoning_content": "hm"}}]},
        {"choices": [{"delta": {"reasoning": "m"}}]},
        {"choices": [{"delta": {"refusal": "no"}}]},
        delta("x", "stop"),
    ]
    async with serve(ScriptedModel(sse(*events))) as server:
        client = connect(server)
        pieces = await pieces_of(client, SHORT)
        await client.aclose()
    assert "".join(piece.reasoning for piece in pieces) == "hmm"
    assert "".join(piece.refusal for piece in pieces) == "no"
    assert text_of(pieces) == "x"


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
        client = connect(server)
        assert text_of(await pieces_of(client, SHORT)) == "hé"
        await client.aclose()


async def test_json_instead_of_a_stream_is_one_piece() -> None:
    body: Any = {"choices": [{"message": {"content": "all at once"}, "finish_reason": "stop"}], "usage": usage(1, 2)}
    async with serve(ScriptedModel(Body(body))) as server:
        client = connect(server)
        pieces = await pieces_of(client, SHORT)
        await client.aclose()
    assert [(piece.text, piece.finish_reason) for piece in pieces] == [("all at once", "stop")]
    assert pieces[0].usage == Usage(input_tokens=1, output_tokens=2, reported=True)


async def test_server_that_cannot_stream_is_asked_again_without() -> None:
    warnings: list[str] = []
    model = ScriptedModel(failure(400, "Streaming is not supported yet"), "plain")
    async with serve(model) as server:
        client = OpenAIModel("", Endpoint(base_url=server.url), warn=warnings.append)
        assert text_of(await pieces_of(client, SHORT)) == "plain"
        await client.aclose()
    assert "stream" not in model.requests[1]
    assert len(warnings) == 1


@pytest.mark.parametrize(
    ("status", "message"), [(400, "bad"), (401, "who?"), (429, "slow down"), (500, "oops"), (503, "")]
)
async def test_error_status_carries_what_the_provider_says(status: int, message: str) -> None:
    async with serve(ScriptedModel(failure(status, message), failure(status, message))) as server:
        client = connect(server)
        with pytest.raises(HTTPError) as caught:
            await client.send(SHORT)
        with pytest.raises(HTTPError):
            await pieces_of(client, SHORT)
        await client.aclose()
    assert caught.value.status == status
    assert str(caught.value) == (message or f"HTTP {status}")
    assert caught.value.body == {"error": {"message": message}}


async def test_error_body_that_is_no_json_is_kept_raw() -> None:
    async with serve(ScriptedModel(RawBytes([b"<html>bad gateway</html>"], "text/html", 502))) as server:
        client = connect(server)
        with pytest.raises(HTTPError) as caught:
            await client.send(SHORT)
        await client.aclose()
    assert (caught.value.status, caught.value.body) == (502, None)
    assert caught.value.raw_body == "<html>bad gateway</html>"


async def test_rate_limit_is_retried_when_retries_are_allowed() -> None:
    model = ScriptedModel(failure(429, "slow down"), failure(500, "oops"), "ok")
    async with serve(model) as server:
        client = with_retries(connect(server), retries=2, backoff=lambda _: 0)
        reply = await client.send(SHORT)
        await client.aclose()
    assert reply.text == "ok"
    assert len(model.requests) == 3


async def test_silence_is_a_timeout() -> None:
    async with serve(ScriptedModel(Hang(), Hang(after=["a"]))) as server:
        client = connect(server, read_timeout=0.3)
        with pytest.raises(RequestTimeoutError) as caught:
            await client.send(SHORT)
        assert isinstance(caught.value, TimeoutError)
        received: list[str] = []
        with pytest.raises(RequestTimeoutError):
            await pieces_of(client, SHORT, received)
        assert "".join(received) == "a"
        await client.aclose()


async def test_broken_connections_are_told() -> None:
    async with serve(ScriptedModel(Disconnect(), Disconnect(after=["a", "b"]))) as server:
        client = connect(server)
        with pytest.raises(ConnectionFailedError) as caught:
            await client.send(SHORT)
        assert isinstance(caught.value, ConnectionError)
        with pytest.raises(ConnectionFailedError):
            await pieces_of(client, SHORT)
        await client.aclose()


async def test_nobody_listening_is_a_failed_connection() -> None:
    async with serve(ScriptedModel()) as server:
        url = server.url
    client = OpenAIModel("", Endpoint(base_url=url))
    with pytest.raises(ConnectionFailedError):
        await client.send(SHORT)
    await client.aclose()


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(RawBytes([b"data: {broken\n\n"]), id="broken JSON"),
        pytest.param(RawBytes([b"data: [1]\n\n"]), id="no object"),
        pytest.param(RawBytes([b'data: {"a": NaN}\n\n']), id="not strict JSON"),
    ],
)
async def test_malformed_piece_is_a_decode_error(reply: RawBytes) -> None:
    async with serve(ScriptedModel(reply)) as server:
        client = connect(server)
        with pytest.raises(DecodeError):
            await pieces_of(client, SHORT)
        await client.aclose()


async def test_malformed_answer_is_a_decode_error() -> None:
    async with serve(ScriptedModel(RawBytes([b"not json"], "application/json"))) as server:
        client = connect(server)
        with pytest.raises(DecodeError, match="not json"):
            await client.send(SHORT)
        await client.aclose()


async def test_error_object_inside_a_stream_ends_it() -> None:
    script = sse(delta("par"), {"error": {"message": "overloaded", "code": 529}})
    async with serve(ScriptedModel(script)) as server:
        client = connect(server)
        with pytest.raises(ProviderError, match="overloaded"):
            await pieces_of(client, SHORT)
        await client.aclose()


async def test_stream_that_just_ends_is_noticed() -> None:
    async with serve(ScriptedModel(sse(delta("half an ans"), done=False))) as server:
        client = connect(server)
        with pytest.raises(ConnectionFailedError, match="before the reply"):
            await pieces_of(client, SHORT)
        await client.aclose()


async def test_leaving_a_stream_ends_the_request() -> None:
    async with serve(ScriptedModel(Hang(after=["a"]))) as server:
        client = connect(server)
        async with aclosing(client.stream(SHORT)) as pieces:
            async for piece in pieces:
                if piece.text:
                    break
        async with asyncio.timeout(5):
            await server.hung_up.wait()
        await client.aclose()
    assert server.hang_ups == 1


@pytest.mark.parametrize("streaming", [False, True])
async def test_cancelling_leaves_nothing_running(streaming: bool) -> None:
    before = asyncio.all_tasks()
    async with serve(ScriptedModel(Hang(after=["a"]))) as server:
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
    echo = f"Incorrect API key provided: {KEY}"
    replies = [failure(401, echo), sse({"error": {"message": echo}}), RawBytes([f"data: {KEY}\n\n".encode()])]
    errors: list[ModelError] = []
    async with serve(ScriptedModel(*replies)) as server:
        client = connect(server, api_key=KEY, headers={"X-Session-Token": "tok-42-secret"})
        for attempt in (
            client.send(SHORT),
            pieces_of(client, SHORT),
            pieces_of(client, SHORT),
        ):
            with pytest.raises(ModelError) as caught:
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
        client = connect(server)
        await client.send(body_request(request))
        await client.aclose()
    assert "parallel_tool_calls" not in model.requests[0]
    assert loose(model.requests[0])["response_format"]["json_schema"]["strict"] is False
    assert request["response_format"]["json_schema"]["strict"] is True


@pytest.mark.parametrize(
    "call",
    [
        {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}},
        {"id": "c", "type": "custom", "custom": {"name": "f", "input": "any text"}},
    ],
)
async def test_answers_with_tool_calls_pass_unchanged(call: dict[str, object]) -> None:
    async with serve(ScriptedModel(Answer(tool_calls=[call]))) as server:
        client = connect(server)
        reply = await client.send(SHORT)
        await client.aclose()
    assert [each.to_dict() for each in reply.tool_calls] == [call]
    assert reply.finish_reason == "tool_calls"
