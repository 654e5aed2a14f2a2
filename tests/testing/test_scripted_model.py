"""The scripted model, as a transport and over HTTP."""

from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.request
from contextlib import aclosing
from typing import Any

import pytest

from tavernkit.models import (
    ConnectionFailedError,
    DecodeError,
    Endpoint,
    HTTPError,
    Model,
    OpenAIModel,
    ReplyPiece,
    Request,
    Usage,
)
from tavernkit.testing import (
    Answer,
    Body,
    Disconnect,
    Failure,
    Hang,
    HttpReply,
    HttpRequest,
    LoopbackServer,
    RawBytes,
    ScriptedModel,
    ScriptExhaustedError,
    answer,
    calls,
    failure,
    serve,
    serve_in_thread,
    streamed,
    tool_call,
    usage,
)

REQUEST = Request(model="m", messages=[])
BODY: dict[str, Any] = {"model": "m", "messages": []}


async def collect(model: ScriptedModel) -> list[ReplyPiece]:
    return [piece async for piece in model.stream(REQUEST)]


def post(url: str, body: Any, path: str = "/v1/chat/completions") -> tuple[int, str]:
    request = urllib.request.Request(url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=5) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


async def test_replies_come_in_order_and_requests_are_kept() -> None:
    model = ScriptedModel("one", answer("two", usage=usage(1, 2)), lambda request: str(len(request)))
    assert isinstance(model, Model)
    replies = [await model.send(REQUEST.replace(options={"n": number})) for number in range(3)]
    assert [reply.text for reply in replies] == ["one", "two", "3"]
    assert replies[1].usage.total_tokens == 3
    assert [request["n"] for request in model.requests] == [0, 1, 2]
    assert model.remaining == 0
    with pytest.raises(ScriptExhaustedError, match="request 4"):
        await model.send(REQUEST)


async def test_prompts_for_text_completion_are_answered() -> None:
    model = ScriptedModel("x", name="mine")
    assert (await model.send(Request(prompt="Once", stop=("."), options={"seed": 1}))).text == "x"
    assert model.requests == [{"model": "mine", "prompt": "Once", "seed": 1, "stop": ["."]}]


async def test_the_last_reply_may_repeat() -> None:
    model = ScriptedModel("a", "b", repeat_last=True)
    assert [(await model.send(REQUEST)).text for _ in range(4)] == ["a", "b", "b", "b"]


async def test_tool_calls_are_in_the_protocols_shape() -> None:
    reply = await ScriptedModel(calls(tool_call("f", {"é": 1}), tool_call("g", "raw", id="x"))).send(REQUEST)
    assert reply.finish_reason == "tool_calls"
    assert [call.to_dict() for call in reply.tool_calls] == [
        {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": '{"é": 1}'}},
        {"id": "x", "type": "function", "function": {"name": "g", "arguments": "raw"}},
    ]


async def test_streams_have_pieces_reasoning_and_usage() -> None:
    model = ScriptedModel(
        Answer(text="ab", deltas=["a", "b"], reasoning="hm", usage=usage(1, 1)),
        "whole",
        Body({"choices": [{"text": "t"}]}),
    )
    chunks = await collect(model)
    assert [chunk.text for chunk in chunks if chunk.text] == ["a", "b"]
    assert "".join(chunk.reasoning for chunk in chunks) == "hm"
    assert chunks[-1].usage == Usage(input_tokens=1, output_tokens=1, reported=True)
    assert "".join(chunk.text for chunk in await collect(model)) == "whole"
    assert "".join(chunk.text for chunk in await collect(model)) == "t"


async def test_misbehaviour_is_what_a_model_raises() -> None:
    model = ScriptedModel(
        failure(429, "slow", retry_after="1"),
        Disconnect(after=["a"]),
        RawBytes([b"x"]),
        ValueError("mine"),
        Hang(after=["a"]),
    )
    with pytest.raises(HTTPError, match="slow") as caught:
        await model.send(REQUEST)
    assert (caught.value.status, caught.value.headers) == (429, {"retry-after": "1"})
    with pytest.raises(ConnectionFailedError):
        await collect(model)
    with pytest.raises(DecodeError):
        await model.send(REQUEST)
    with pytest.raises(ValueError, match="mine"):
        await model.send(REQUEST)
    async with aclosing(model.stream(REQUEST)) as chunks:
        assert (await anext(chunks)).text == "a"
        waiting = asyncio.ensure_future(loose_next(chunks))
        await asyncio.sleep(0)
        assert not waiting.done()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting


async def loose_next(chunks: Any) -> Any:
    return await anext(chunks)


async def test_server_sends_half_characters() -> None:
    async with serve(ScriptedModel("a\ud83d", streamed("b\ud83d"))) as server:
        model = OpenAIModel("any", Endpoint(base_url=server.url))
        assert (await model.send(Request(messages=[{"role": "user", "content": "hi"}]))).text == "a\ud83d"
        pieces = [piece.text async for piece in model.stream(Request(messages=[{"role": "user", "content": "hi"}]))]
        assert "".join(pieces) == "b\ud83d"
        await model.aclose()


def test_server_speaks_the_protocol_from_a_thread() -> None:
    model = ScriptedModel("hi", streamed("a", "b"), Failure(503, {"error": "down"}), ValueError("mine"), name="test")
    with serve_in_thread(model) as url:
        status, text = post(url, BODY)
        assert (status, json.loads(text)["choices"][0]["message"]["content"]) == (200, "hi")
        status, text = post(url, {**BODY, "stream": True})
        assert text.count("data: ") == 5
        assert text.endswith("data: [DONE]\n\n")
        assert post(url, BODY) == (503, '{"error": "down"}')
        status, text = post(url, BODY)
        assert (status, "mine" in text) == (500, True)
        assert post(url, BODY)[0] == 500
        assert post(url, [1])[0] == 400
        assert post(url, BODY, "/v1/nope")[0] == 404
        with urllib.request.urlopen(f"{url}/v1/models", timeout=5) as response:
            assert json.loads(response.read())["data"][0]["id"] == "test"
    assert len(model.requests) == 5


async def test_server_counts_clients_that_hang_up() -> None:
    async with serve(ScriptedModel(Hang())) as server:
        host, port = server.url.removeprefix("http://").split(":")
        _, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"POST /v1/chat/completions HTTP/1.1\r\ncontent-length: 2\r\n\r\n{}")
        async with asyncio.timeout(5):
            await server.received.wait()
            writer.close()
            await writer.wait_closed()
            await server.hung_up.wait()
    assert server.hang_ups == 1
    assert server.open_connections == 0


async def test_loopback_server_takes_chunked_bodies_and_keeps_connections() -> None:
    async def echo(request: HttpRequest) -> HttpReply:
        return HttpReply(status=299, body=request.body, headers={"x-method": request.method})

    async with LoopbackServer(echo).running() as server:
        host, port = server.url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        for _ in range(2):
            writer.write(b"PUT / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n")
            async with asyncio.timeout(5):
                head = await reader.readuntil(b"\r\n\r\n")
                assert head.startswith(b"HTTP/1.1 299 Unknown\r\n")
                assert b"x-method: PUT" in head
                assert await reader.readexactly(5) == b"abcde"
        writer.close()
        await writer.wait_closed()


def test_importing_the_testing_room_pulls_in_no_sdk() -> None:
    import subprocess
    import sys

    code = (
        "import sys, tavernkit.testing as t; t.ScriptedModel, t.serve; "
        "print([m for m in ('openai', 'anthropic', 'httpx', 'pydantic', 'liquid') if m in sys.modules])"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == "[]"
