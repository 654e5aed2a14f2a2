"""A model that answers from a script: for tests and trials without a network.

A script has replies, tool calls, streams, errors and broken connections.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import field
from typing import TypeAlias

from tavernkit._arguments import require
from tavernkit._dataclass import dataclass
from tavernkit._values import Json, JsonObject, is_object, thaw_object
from tavernkit.errors import TavernKitError
from tavernkit.models._bodies import request_body
from tavernkit.models._protocol import AsyncContext
from tavernkit.models._readers import OpenAIReader
from tavernkit.models._reply import Reply, ReplyPiece
from tavernkit.models._request import REQUEST, Request
from tavernkit.models._streams import collect, keep_partial
from tavernkit.models.errors import ConnectionFailedError, DecodeError, HTTPError

CREATED = 1_700_000_000
"""The timestamp of scripted answers, always the same, so that tests are reproducible."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An answer. When it is streamed, ``deltas`` are its pieces (by default the whole text is one)."""

    text: str | None = ""
    """What the model says."""
    tool_calls: Sequence[Mapping[str, object]] = ()
    """Functions that the model calls, in OpenAI's shape."""
    finish_reason: str | None = None
    """Why the model stopped; by default ``tool_calls`` if it calls tools, else ``stop``."""
    usage: Mapping[str, object] | None = None
    """Token counts in OpenAI's shape."""
    deltas: Sequence[str] | None = None
    reasoning: str = ""
    """What the model thinks before it answers."""
    extra: Mapping[str, object] = field(default_factory=dict[str, object])
    """More keys for the message."""

    def message(self) -> JsonObject:
        """The assistant message."""
        message: JsonObject = {"role": "assistant", "content": self.text}
        if self.tool_calls:
            message["tool_calls"] = [thaw_object(call) for call in self.tool_calls]
        if self.reasoning:
            message["reasoning_content"] = self.reasoning
        return message | thaw_object(self.extra)

    def reason(self) -> str:
        """Why the answer ends."""
        return self.finish_reason or ("tool_calls" if self.tool_calls else "stop")

    def pieces(self) -> list[str]:
        """The text, piece by piece."""
        if self.deltas is not None:
            return list(self.deltas)
        return [self.text] if self.text else []

    def body(self, model: str) -> JsonObject:
        """The answer as a chat completion."""
        choice: JsonObject = {"index": 0, "message": self.message(), "finish_reason": self.reason()}
        body: JsonObject = {
            "id": "chatcmpl-scripted",
            "object": "chat.completion",
            "created": CREATED,
            "model": model,
            "choices": [choice],
        }
        if self.usage is not None:
            body["usage"] = thaw_object(self.usage)
        return body

    def events(self, model: str, *, include_usage: bool = True) -> list[JsonObject]:
        """The answer as the events of a stream.

        Args:
            model: The model's name in the events.
            include_usage: End with the token counts, if the answer has them.
        """
        first: JsonObject = {"role": "assistant", "content": ""}
        deltas = [first]
        if self.reasoning:
            deltas.append({"reasoning_content": self.reasoning})
        deltas.extend({"content": piece} for piece in self.pieces())
        deltas.extend(_call_delta(index, call) for index, call in enumerate(self.tool_calls))
        events = [_event(model, [{"index": 0, "delta": delta, "finish_reason": None}]) for delta in deltas]
        events.append(_event(model, [{"index": 0, "delta": {}, "finish_reason": self.reason()}]))
        if self.usage is not None and include_usage:
            last = _event(model, [])
            last["usage"] = thaw_object(self.usage)
            events.append(last)
        return events


@dataclass(frozen=True, slots=True)
class Body:
    """A body exactly as given, for malformed answers."""

    body: JsonObject


@dataclass(frozen=True, slots=True)
class Failure:
    """An HTTP error."""

    status: int
    """The HTTP status, such as 429."""
    body: Json = None
    """The JSON body of the error."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    """Headers of the answer, such as ``Retry-After``."""


@dataclass(frozen=True, slots=True)
class Hang:
    """No answer at all: the request waits until it is cancelled.

    The pieces in ``after`` are streamed first.
    """

    after: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Disconnect:
    """The connection breaks, after some pieces of text when it is a stream."""

    after: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class RawBytes:
    """Bytes on the wire exactly as given, for broken streams and broken JSON."""

    chunks: Sequence[bytes]
    """The bytes, in the portions they are sent in."""
    content_type: str = "text/event-stream"
    """The ``Content-Type`` header."""
    status: int = 200
    """The HTTP status."""


ScriptedReply: TypeAlias = Answer | Body | Failure | Hang | Disconnect | RawBytes


def answer(text: str = "", *, usage: Mapping[str, object] | None = None, reasoning: str = "") -> Answer:
    """Say something.

    Args:
        text: The reply.
        usage: Token counts, made with ``usage()``.
        reasoning: What the model thinks first.
    """
    return Answer(text=text, usage=usage, reasoning=reasoning)


def streamed(*deltas: str, usage: Mapping[str, object] | None = None) -> Answer:
    """Say something; a stream gets it piece by piece.

    Args:
        deltas: The pieces.
        usage: Token counts, made with ``usage()``.
    """
    return Answer(text="".join(deltas), deltas=deltas, usage=usage)


def calls(*tool_calls: Mapping[str, object], text: str = "", usage: Mapping[str, object] | None = None) -> Answer:
    """Call tools; make the calls with ``tool_call()``.

    Args:
        tool_calls: The calls.
        text: What the model says along with them.
        usage: Token counts, made with ``usage()``.
    """
    return Answer(text=text, tool_calls=tool_calls, usage=usage)


def tool_call(name: str, arguments: Mapping[str, object] | str | None = None, *, id: str = "call_1") -> JsonObject:  # noqa: A002  # the protocol's name
    """Make one call; a mapping of arguments becomes JSON text, as models write it.

    Args:
        name: The tool's name.
        arguments: Its arguments, or JSON text as it is.
        id: The id of the call.
    """
    written = arguments if isinstance(arguments, str) else json.dumps(dict(arguments or {}), ensure_ascii=False)
    return {"id": id, "type": "function", "function": {"name": name, "arguments": written}}


def failure(status: int, message: str = "scripted failure", **headers: str) -> Failure:
    """Answer with an HTTP error; headers are written ``retry_after="1"``.

    Args:
        status: The HTTP status.
        message: The error's text.
        headers: Headers of the response.
    """
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Failure(status, {"error": {"message": message}}, named)


def usage(prompt_tokens: int, completion_tokens: int) -> JsonObject:
    """Make token counts.

    Args:
        prompt_tokens: Tokens of the prompt.
        completion_tokens: Tokens of the reply.
    """
    total = prompt_tokens + completion_tokens
    return {"prompt_tokens": prompt_tokens, "completion_tokens": completion_tokens, "total_tokens": total}


def _call_delta(index: int, call: Mapping[str, object]) -> JsonObject:
    return {"tool_calls": [{"index": index, **thaw_object(call)}]}


def _event(model: str, choices: list[Json]) -> JsonObject:
    return {
        "id": "chatcmpl-scripted",
        "object": "chat.completion.chunk",
        "created": CREATED,
        "model": model,
        "choices": choices,
    }


Script: TypeAlias = ScriptedReply | str | BaseException | Callable[[JsonObject], ScriptedReply | str]
"""One entry of a script: a reply, its text, an exception to raise, or a function of the request's body."""


class ScriptExhaustedError(TavernKitError):
    """A scripted model got more requests than it has replies."""


class ScriptedModel(AsyncContext):
    """Answers requests from a script, in order, and remembers them.

    ``requests`` are the bodies of the requests in OpenAI's shape, as a server would get them.
    ``tavernkit.testing.serve()`` offers the same model over HTTP.

    >>> model = ScriptedModel("Hello.", failure(500), calls(tool_call("roll", {"sides": 6})))   # doctest: +SKIP
    """

    dialect = "openai"

    def __init__(self, *script: Script, name: str = "scripted-model", repeat_last: bool = False) -> None:
        """Make a model.

        Args:
            script: What it says, one entry for each request.
            name: The model's name.
            repeat_last: Repeat the last entry forever, instead of raising ``ScriptExhaustedError``.
        """
        for entry in script:
            require("script", entry, Script, "a reply, text, an exception, or a function that gives a reply or text")
        self.name = name
        self.requests: list[JsonObject] = []
        self._script: Sequence[Script] = script
        self._repeat_last = repeat_last
        self._lock = threading.Lock()

    @property
    def remaining(self) -> int:
        """How many replies have not been given yet."""
        return max(len(self._script) - len(self.requests), 0)

    def next_reply(self, body: JsonObject) -> ScriptedReply:
        """Record the body of a request and return the next reply of the script.

        Raises:
            ScriptExhaustedError: There is none.
        """
        with self._lock:
            position = len(self.requests)
            self.requests.append(thaw_object(body))
        if position >= len(self._script) and self._repeat_last and self._script:
            position = len(self._script) - 1
        if position >= len(self._script):
            raise ScriptExhaustedError(f"request {position + 1} came, and the script has {len(self._script)} replies")
        entry = self._script[position]
        if isinstance(entry, BaseException):
            raise entry
        reply = entry(body) if callable(entry) else entry
        require("what a function of the script returns", reply, ScriptedReply | str, "a reply or text")
        return Answer(text=reply) if isinstance(reply, str) else reply

    async def send(self, request: Request, *, on_delta: Callable[[ReplyPiece], object] | None = None) -> Reply:
        """Answer a request; with ``on_delta``, piece by piece.

        Args:
            request: The request.
            on_delta: Called with each piece of the reply.
        """
        if on_delta is not None:
            async with aclosing(self.stream(request)) as pieces:
                return await collect(pieces, on_delta)
        async with aclosing(self._pieces(request, stream=False)) as pieces:
            return await collect(pieces)

    def stream(self, request: Request) -> AsyncGenerator[ReplyPiece]:
        """Answer piece by piece."""
        return keep_partial(self._pieces(request, stream=True))

    async def _pieces(self, request: Request, *, stream: bool) -> AsyncGenerator[ReplyPiece]:
        require("request", request, Request, REQUEST)
        dialect = "openai" if request.prompt is None else "text"
        asked = request.replace(model=request.model or self.name, dialect=dialect)
        body = request_body(asked, stream=stream)
        reply = self.next_reply(body)
        if stream and isinstance(reply, (Hang, Disconnect)):
            for piece in reply.after:
                yield ReplyPiece(text=piece)
        answer = await _answer(reply)
        reader = OpenAIReader()
        for event in _events(answer, body, self.name, stream=stream):
            yield reader.read(event)
        reader.finish(streamed=stream and isinstance(answer, Answer))


async def _answer(reply: ScriptedReply) -> Answer | Body:
    """Return an answer, or raise what a real model raises."""
    if isinstance(reply, Failure):
        raise HTTPError.from_body(reply.status, reply.body, headers=reply.headers)
    if isinstance(reply, Hang):
        await asyncio.Event().wait()
    if isinstance(reply, (Hang, Disconnect)):
        raise ConnectionFailedError("the scripted connection broke")
    if isinstance(reply, RawBytes):
        raise DecodeError("scripted raw bytes only make sense over HTTP: use tavernkit.testing.serve")
    return reply


def _events(answer: Answer | Body, body: JsonObject, name: str, *, stream: bool) -> list[JsonObject]:
    if isinstance(answer, Body):
        return [thaw_object(answer.body)]
    if not stream:
        return [answer.body(str(body.get("model", "")))]
    options = body.get("stream_options")
    include_usage = is_object(options) and options.get("include_usage") is True
    return answer.events(name, include_usage=include_usage)
