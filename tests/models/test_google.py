"""Google's protocol over a real connection."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import re
import traceback
from typing import Any

import pytest

from tavernkit.models import (
    ConnectionFailedError,
    Endpoint,
    GoogleModel,
    HTTPError,
    ModelError,
    ProviderError,
    Request,
    RequestTimeoutError,
    Usage,
)
from tavernkit.testing import LoopbackServer
from tests.models.native_server import Wire, sent_json, serve_wire
from tests.models.support import body_request, pieces_of

KEY = "AIza-very-secret-key"
REQUEST: dict[str, Any] = {
    "model": "gemini-test",
    "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}],
}
SHORT = Request.from_body(REQUEST)
COUNTS = {"promptTokenCount": 10, "candidatesTokenCount": 3, "thoughtsTokenCount": 2, "totalTokenCount": 15}


def answer(*parts: dict[str, Any], reason: str | None = "STOP") -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": list(parts)}}
    return {"candidates": [candidate | ({"finishReason": reason} if reason else {})], "usageMetadata": COUNTS}


def connect(server: LoopbackServer, warnings: list[str] | None = None, **fields: Any) -> GoogleModel:
    settings = {"base_url": server.url, "api_prefix": "v1beta", "api_key": KEY, **fields}
    return GoogleModel("", Endpoint(**settings), warn=(warnings if warnings is not None else []).append)


async def test_answer_is_translated_both_ways() -> None:
    reply = answer({"text": "hm", "thought": True}, {"text": "Hello."})
    async with serve_wire(Wire(reply)) as server:
        client = connect(server)
        request = {**REQUEST, "stop": "END", "max_tokens": 50, "temperature": 0.5, "seed": 4}
        reply_ = await client.send(body_request(request))
        await client.aclose()
    native = sent_json(server)
    assert native["contents"] == [{"role": "user", "parts": [{"text": "hi"}]}]
    assert native["systemInstruction"]["parts"] == [{"text": "Be brief."}]
    config = native["generationConfig"]
    assert (config["maxOutputTokens"], config["stopSequences"], config["temperature"], config["seed"]) == (
        50,
        ["END"],
        0.5,
        4,
    )
    assert server.requests[0].path == "/v1beta/models/gemini-test:generateContent"
    assert server.requests[0].headers["x-goog-api-key"] == KEY
    assert (reply_.text, reply_.reasoning, reply_.finish_reason) == ("Hello.", "hm", "stop")
    assert reply_.usage == Usage(input_tokens=10, output_tokens=5, reasoning_tokens=2, reported=True)


async def test_tools_results_media_and_signatures_are_translated() -> None:
    signature = base64.b64encode(b"signed").decode()
    tool = {"type": "function", "function": {"name": "roll", "description": "d", "parameters": {"type": "object"}}}
    call = {
        "id": "c1",
        "type": "function",
        "function": {"name": "roll", "arguments": '{"sides":6}'},
        "signature": signature,
    }
    image = base64.b64encode(b"png").decode()
    messages = [
        {
            "role": "user",
            "content": "roll",
            "attachments": [{"type": "image", "data": image, "media_type": "image/png"}],
        },
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": '{"ok":true}', "tool_call_id": "c1"},
    ]
    reply = answer({"functionCall": {"name": "roll", "args": {"sides": 20}}, "thoughtSignature": signature})
    async with serve_wire(Wire(reply)) as server:
        client = connect(server)
        request = {"model": "m", "messages": messages, "tools": [tool], "tool_choice": "required"}
        reply_ = await client.send(body_request(request))
        await client.aclose()
    native = sent_json(server)
    assert native["tools"][0]["functionDeclarations"][0]["name"] == "roll"
    assert native["toolConfig"]["functionCallingConfig"]["mode"] == "ANY"
    assert native["contents"][0]["parts"][0]["inlineData"]["data"] == image
    assert native["contents"][1]["parts"][0]["functionCall"] == {"name": "roll", "args": {"sides": 6}}
    assert native["contents"][1]["parts"][0]["thoughtSignature"] == signature
    assert native["contents"][2]["parts"][0]["functionResponse"]["response"] == {"ok": True}
    assert reply_.finish_reason == "tool_calls"
    assert [call.to_dict() for call in reply_.tool_calls] == [
        {
            "id": "call_1",
            "type": "function",
            "function": {"name": "roll", "arguments": '{"sides":20}'},
            "signature": signature,
        }
    ]


async def test_structured_output_is_translated() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    wrapper = {"type": "json_schema", "json_schema": {"name": "n", "strict": True, "schema": schema}}
    async with serve_wire(Wire(answer({"text": "{}"})), Wire(answer({"text": "{}"}))) as server:
        client = connect(server)
        await client.send(body_request({**REQUEST, "response_format": wrapper}))
        await client.send(body_request({**REQUEST, "response_format": {"type": "json_object"}}))
        await client.aclose()
    strict, plain = (sent_json(server, position)["generationConfig"] for position in (0, 1))
    assert strict["responseMimeType"] == plain["responseMimeType"] == "application/json"
    assert strict["responseJsonSchema"] == schema
    assert "responseJsonSchema" not in plain


async def test_blocked_prompt_is_a_refusal() -> None:
    async with serve_wire(Wire({"promptFeedback": {"blockReason": "SAFETY"}})) as server:
        client = connect(server)
        reply = await client.send(SHORT)
        await client.aclose()
    assert (reply.finish_reason, reply.refusal) == ("content_filter", "SAFETY")


EMPTY = [
    {},
    {"candidates": []},
    {"candidates": [{"finishReason": "MAX_TOKENS"}]},
    {"candidates": [{"content": {"role": "model"}, "finishReason": "SAFETY"}]},
    {"error": {"code": 500, "message": "inside 200"}},
]


@pytest.mark.parametrize("body", EMPTY)
async def test_an_empty_reply_inside_200_is_an_error(body: dict[str, Any]) -> None:
    async with serve_wire(Wire(body), Wire(events=[body, {"candidates": [{"finishReason": "STOP"}]}])) as server:
        client = connect(server)
        with pytest.raises(ProviderError):
            await client.send(SHORT)
        with pytest.raises(ProviderError):
            await pieces_of(client, SHORT)
        await client.aclose()


async def test_google_says_what_is_wrong_with_a_malformed_call() -> None:
    said = "Malformed function call: roll(sides="
    body = {"candidates": [{"content": {}, "finishReason": "MALFORMED_FUNCTION_CALL", "finishMessage": said}]}
    async with serve_wire(Wire(body), Wire(events=[body])) as server:
        client = connect(server)
        with pytest.raises(ProviderError, match=re.escape(said)):
            await client.send(SHORT)
        with pytest.raises(ProviderError, match=re.escape(said)):
            await pieces_of(client, SHORT)
        await client.aclose()


async def test_stream_arrives_in_pieces_with_usage() -> None:
    script = [answer({"text": "Hel"}, reason=None), answer({"text": "lo."}), {"usageMetadata": COUNTS}]
    async with serve_wire(Wire(events=script)) as server:
        client = connect(server)
        pieces = await pieces_of(client, SHORT)
        await client.aclose()
    assert [piece.text for piece in pieces if piece.text] == ["Hel", "lo."]
    assert [piece.finish_reason for piece in pieces if piece.finish_reason] == ["stop"]
    assert pieces[-1].usage is not None
    assert pieces[-1].usage.total_tokens == 15
    assert server.requests[0].path.startswith("/v1beta/models/gemini-test:streamGenerateContent")


async def test_tool_calls_stream_as_deltas() -> None:
    first = {"functionCall": {"name": "roll", "args": {"sides": 6}}, "thoughtSignature": "c2ln"}
    second = {"functionCall": {"name": "wait", "id": "w"}}
    script = [answer(first, reason=None), answer(second, reason=None), answer({"text": ""})]
    async with serve_wire(Wire(events=script)) as server:
        client = connect(server)
        pieces = await pieces_of(client, SHORT)
        await client.aclose()
    deltas = [delta for piece in pieces for delta in piece.tool_calls]
    assert [(each.index, each.id, each.name, each.arguments) for each in deltas] == [
        (0, "call_1", "roll", '{"sides":6}'),
        (1, "w", "wait", "{}"),
    ]
    assert deltas[0].extra == {"signature": "c2ln"}
    assert pieces[-1].finish_reason == "tool_calls"


@pytest.mark.parametrize("status", [400, 429, 500])
async def test_error_status_carries_what_the_provider_says(status: int) -> None:
    body = {"error": {"code": status, "message": "not today", "status": "X"}}
    async with serve_wire(Wire(body, status=status), Wire(body, status=status)) as server:
        client = connect(server)
        with pytest.raises(HTTPError, match="not today") as caught:
            await client.send(SHORT)
        with pytest.raises(HTTPError, match="not today"):
            await pieces_of(client, SHORT)
        await client.aclose()
    assert caught.value.status == status


async def test_silence_is_a_timeout() -> None:
    hanging = Wire(events=[answer({"text": "a"}, reason=None)], hang=True)
    async with serve_wire(Wire(hang=True), hanging) as server:
        client = connect(server, read_timeout=0.3)
        with pytest.raises(RequestTimeoutError):
            await client.send(SHORT)
        received: list[str] = []
        with pytest.raises(RequestTimeoutError):
            await pieces_of(client, SHORT, received)
        await client.aclose()
    assert "".join(received) == "a"


async def test_cut_streams_are_told() -> None:
    piece = answer({"text": "a"}, reason=None)
    async with serve_wire(Wire(events=[piece]), Wire(events=[piece], drop=True)) as server:
        client = connect(server)
        with pytest.raises(ConnectionFailedError, match="before the reply"):
            await pieces_of(client, SHORT)
        with pytest.raises(ConnectionFailedError):
            await pieces_of(client, SHORT)
        await client.aclose()


async def test_malformed_stream_is_told() -> None:
    async with serve_wire(Wire(raw=b"data: {broken\n\n")) as server:
        client = connect(server)
        with pytest.raises(ModelError):
            await pieces_of(client, SHORT)
        await client.aclose()


@pytest.mark.parametrize("streaming", [False, True])
async def test_cancelling_leaves_nothing_running(streaming: bool) -> None:
    before = asyncio.all_tasks()
    wire = Wire(events=[answer({"text": "a"}, reason=None)], hang=True) if streaming else Wire(hang=True)
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
    echo = {"error": {"code": 401, "message": f"API key not valid: {KEY}"}}
    async with serve_wire(Wire(echo, status=401)) as server:
        client = connect(server)
        with pytest.raises(HTTPError) as caught:
            await client.send(SHORT)
        await client.aclose()
    error = caught.value
    told = "".join(traceback.format_exception(error)) + json.dumps(error.body) + repr(error.__context__)
    assert KEY not in told
    assert "[redacted]" in str(error)
    assert KEY not in caplog.text
