"""The real ``openai`` client against a running server on loopback."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractContextManager, aclosing
from typing import Any

import httpx
import pytest
from openai import APIError, APIStatusError, AsyncOpenAI, BadRequestError, NotFoundError, OpenAI

from tavernkit.models import ConnectionFailedError, ReplyPiece, ToolCallPiece
from tavernkit.models._scripted import Hang, usage
from tavernkit.testing import Answer, ScriptedModel, answer, calls, failure, streamed, tool_call

Loopback = Callable[..., AbstractContextManager[str]]
HELLO: list[Any] = [{"role": "user", "content": "Hello"}]
TOOLS: list[Any] = [{"type": "function", "function": {"name": "roll", "parameters": {"type": "object"}}}]


def client_of(url: str) -> OpenAI:
    return OpenAI(base_url=f"{url}/v1", api_key="anything", max_retries=0)


def test_models_and_a_completion(loopback: Loopback) -> None:
    model = ScriptedModel(answer("Welcome.", usage=usage(7, 3)))
    with loopback(model) as url, client_of(url) as client:
        assert [each.id for each in client.models.list()] == ["aria", "aria@preset"]
        assert client.models.retrieve("aria@preset").id == "aria@preset"
        reply = client.chat.completions.create(model="aria", messages=HELLO, temperature=0.3, max_tokens=50)
    assert reply.choices[0].message.content == "Welcome."
    assert reply.choices[0].finish_reason == "stop"
    assert reply.usage is not None
    assert (reply.usage.prompt_tokens, reply.usage.total_tokens) == (7, 10)
    assert model.requests[0]["temperature"] == 0.3
    assert model.requests[0]["max_tokens"] == 50
    assert "max_completion_tokens" not in model.requests[0]


def test_a_stream(loopback: Loopback) -> None:
    model = ScriptedModel(streamed("Wel", "come", ".", usage=usage(7, 3)))
    with loopback(model) as url, client_of(url) as client:
        stream = client.chat.completions.create(
            model="aria", messages=HELLO, stream=True, stream_options={"include_usage": True}
        )
        chunks = list(stream)
    texts = [chunk.choices[0].delta.content for chunk in chunks if chunk.choices]
    assert [text for text in texts if text] == ["Wel", "come", "."]
    assert chunks[-1].usage is not None
    assert chunks[-2].choices[0].finish_reason == "stop"
    assert len({chunk.id for chunk in chunks}) == 1
    assert all("usage" in chunk.model_fields_set for chunk in chunks)
    assert all(chunk.usage is None for chunk in chunks[:-1])


def test_a_stream_may_leave_the_usage_undecided(loopback: Loopback) -> None:
    with loopback(ScriptedModel(streamed("Hi", "."))) as url, client_of(url) as client:
        options: Any = {"include_usage": None}
        chunks = list(client.chat.completions.create(model="aria", messages=HELLO, stream=True, stream_options=options))
    assert not any("usage" in chunk.model_fields_set for chunk in chunks)


async def test_the_asynchronous_client(loopback: Loopback) -> None:
    with loopback(ScriptedModel("One.", streamed("Two", "."))) as url:
        async with AsyncOpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0) as client:
            reply = await client.chat.completions.create(model="aria", messages=HELLO, user="s")
            stream = await client.chat.completions.create(model="aria", messages=HELLO, user="s", stream=True)
            text = "".join([chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices])
    assert (reply.choices[0].message.content, text) == ("One.", "Two.")


@pytest.mark.parametrize("session", [None, "s"])
@pytest.mark.parametrize("stream", [False, True])
def test_tools_are_passed_through(loopback: Loopback, session: str | None, stream: bool) -> None:
    model = ScriptedModel(calls(tool_call("roll", {"sides": 6}, id="c1")), "You rolled a 4.")
    headers = {"X-Tavern-Session": session} if session else {}
    with loopback(model) as url, client_of(url) as client:
        ask: Any = client.chat.completions.create
        first = ask(model="aria", messages=HELLO, tools=TOOLS, extra_headers=headers, stream=stream)
        if stream:
            deltas = [call for chunk in first for call in chunk.choices[0].delta.tool_calls or []]
            call = {"id": deltas[0].id, "type": "function", "function": deltas[0].function.model_dump()}
        else:
            assert first.choices[0].finish_reason == "tool_calls"
            call = first.choices[0].message.tool_calls[0].model_dump()
        assert call["function"]["name"] == "roll"
        messages = [
            *HELLO,
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": call["id"], "content": "4"},
        ]
        second = ask(model="aria", messages=messages, tools=TOOLS, extra_headers=headers)
    assert second.choices[0].message.content == "You rolled a 4."
    sent: Any = model.requests[1]["messages"]
    shown = [message for message in sent if message["role"] == "tool" or message.get("tool_calls")]
    assert shown[0]["tool_calls"][0]["function"]["name"] == "roll"
    assert (shown[1]["tool_call_id"], shown[1]["content"]) == ("c1", "4")
    tools: Any = model.requests[0]["tools"]
    assert tools[0]["function"]["name"] == "roll"


@pytest.mark.parametrize("session", [None, "s"])
@pytest.mark.parametrize("platform", ["silly_tavern", "risu_ai"])
@pytest.mark.parametrize("stream", [False, True])
def test_calls_of_custom_tools_keep_their_names(
    loopback: Loopback, session: str | None, platform: str, stream: bool
) -> None:
    call = {"id": "c1", "type": "custom", "custom": {"name": "code", "input": "print(1)"}}
    model = ScriptedModel(Answer(tool_calls=[call]), "It prints 1.")
    options: Any = {"model": "aria", "tools": [{"type": "custom", "custom": {"name": "code"}}]}
    options |= {"extra_headers": {"X-Tavern-Session": session} if session else {}}
    options |= {"extra_body": {"tavernkit": {"platform": platform}}}
    with loopback(model) as url, client_of(url) as client:
        first: Any = client.chat.completions.create(messages=HELLO, stream=stream, **options)
        if stream:
            [made] = [each for chunk in first for each in chunk.model_dump()["choices"][0]["delta"]["tool_calls"] or []]
            assert (made["index"], made["type"], made["custom"]) == (0, "custom", call["custom"])
        else:
            assert [each.model_dump() for each in first.choices[0].message.tool_calls] == [call]
        called: Any = {"role": "assistant", "content": None, "tool_calls": [call]}
        result: Any = {"role": "tool", "tool_call_id": "c1", "content": "1"}
        client.chat.completions.create(messages=[*HELLO, called, result], **options)
    sent: Any = model.requests[1]["messages"]
    assert [message["tool_calls"] for message in sent if message.get("tool_calls")] == [[call]]
    assert sent[-1] == result


FRAGMENTS = [
    ReplyPiece(text="Let me see."),
    ReplyPiece(tool_calls=(ToolCallPiece(index=0, id="c1", name="roll"),)),
    ReplyPiece(tool_calls=(ToolCallPiece(index=0, arguments='{"sides"'),)),
    ReplyPiece(tool_calls=(ToolCallPiece(index=0, arguments=": 6}"), ToolCallPiece(index=1, id="c2", name="wait"))),
    ReplyPiece(finish_reason="tool_calls"),
]


class Fragments(ScriptedModel):
    """A model whose streams are given piece by piece; what is an error is raised."""

    def __init__(self, *pieces: Any) -> None:
        super().__init__()
        self.pieces = pieces

    async def stream(self, request: Any) -> AsyncGenerator[ReplyPiece]:
        self.requests.append(request.body())
        for piece in self.pieces:
            if isinstance(piece, Exception):
                raise piece
            yield piece


def test_tool_calls_stream_as_deltas_and_are_stored_whole(loopback: Loopback) -> None:
    with loopback(Fragments(*FRAGMENTS)) as url, client_of(url) as client:
        with client.chat.completions.stream(
            model="aria", messages=HELLO, tools=TOOLS, extra_headers={"X-Tavern-Session": "s"}
        ) as stream:
            deltas = [event.arguments_delta for event in stream if event.type == "tool_calls.function.arguments.delta"]
            message = stream.get_final_completion().choices[0].message
        session = httpx.get(f"{url}/api/sessions").json()["data"][0]["id"]
        stored = httpx.get(f"{url}/api/sessions/{session}/messages").json()["data"][-1]
    assert [each for each in deltas if each] == ['{"sides"', ": 6}"]
    assert message.tool_calls is not None
    called = [(call.id, call.function.name, call.function.arguments) for call in message.tool_calls]
    assert called == [("c1", "roll", '{"sides": 6}'), ("c2", "wait", "")]
    assert (message.content, stored["content"]) == ("Let me see.", "Let me see.")
    assert [call["function"]["arguments"] for call in stored["tool_calls"]] == ['{"sides": 6}', "{}"]


def test_a_stream_that_breaks_in_a_call_is_not_asked_for_again(loopback: Loopback) -> None:
    model = Fragments(FRAGMENTS[1], ConnectionFailedError("gone"))
    with loopback(model) as url, client_of(url) as client:
        stream = client.chat.completions.create(model="aria", messages=HELLO, tools=TOOLS, user="s", stream=True)
        with pytest.raises(APIError, match="gone"):
            list(stream)
        session = httpx.get(f"{url}/api/sessions").json()["data"][0]["id"]
        stored = httpx.get(f"{url}/api/sessions/{session}/messages").json()["data"]
    assert len(model.requests) == 1
    assert stored[-1]["role"] == "user"


def test_errors_have_openais_shape(loopback: Loopback) -> None:
    model = ScriptedModel(failure(400, "bad"), failure(401, "who?"))
    with loopback(model) as url, client_of(url) as client:
        with pytest.raises(NotFoundError) as unknown:
            client.chat.completions.create(model="nobody", messages=HELLO)
        with pytest.raises(BadRequestError) as empty:
            client.chat.completions.create(model="aria", messages=[])
        with pytest.raises(BadRequestError):
            client.chat.completions.create(model="aria", messages=HELLO)
        with pytest.raises(APIStatusError) as upstream:
            client.chat.completions.create(model="aria", messages=HELLO)
    assert unknown.value.code == "model_not_found"
    assert empty.value.type == "invalid_request_error"
    assert upstream.value.status_code == 502


def test_an_explanation_on_request(loopback: Loopback) -> None:
    with loopback(ScriptedModel("Hi.")) as url, client_of(url) as client:
        reply = client.chat.completions.create(
            model="aria@preset", messages=HELLO, extra_body={"tavernkit": {"explain": True}}
        )
    shown = reply.model_dump()["tavernkit"]["explanation"]
    assert shown["blocks"][0]["source"]
    assert shown["messages"][-1] == {"role": "user", "content": "Hello"} or shown["messages"]


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_leaves_cancels_the_upstream_call(loopback: Loopback, stream: bool) -> None:
    cancelled = threading.Event()
    asked = threading.Event()

    class Model(ScriptedModel):
        async def send(self, request: Any, **options: Any) -> Any:
            asked.set()
            try:
                return await super().send(request, **options)
            finally:
                cancelled.set()

        async def stream(self, request: Any) -> AsyncGenerator[ReplyPiece]:
            asked.set()
            try:
                async with aclosing(super().stream(request)) as pieces:
                    async for piece in pieces:
                        yield piece
            finally:
                cancelled.set()

    body = json.dumps({"model": "aria", "messages": HELLO, "stream": stream, "user": "s"}).encode()
    with loopback(Model(Hang(after=["Once "]), "Again."), shutdown_seconds=1) as url:
        host, port = url.removeprefix("http://").split(":")
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
        with socket.create_connection((host, int(port))) as raw:
            raw.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            assert asked.wait(10)
            if stream:
                while b"Once" not in raw.recv(65536):
                    pass
        assert cancelled.wait(10)
        with httpx.Client(base_url=url) as client:
            again = client.post("/v1/chat/completions", json={"model": "aria", "messages": HELLO, "user": "s"}).json()
            assert again["choices"][0]["message"]["content"] == "Again."
            messages = client.get(f"/api/sessions/{again['tavernkit']['session_id']}/messages").json()["data"]
    statuses = [(message["content"], message["status"]) for message in messages][1:]
    kept = [("Hello", "complete"), ("Once ", "partial")] if stream else []
    assert statuses == [*kept, ("Hello", "complete"), ("Again.", "complete")]
