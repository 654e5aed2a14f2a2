"""A model that answers from a script: for tests and trials without a network."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import TypeAlias

from tavernkit._arguments import require
from tavernkit._values import JsonObject, is_object, thaw_object
from tavernkit.errors import TavernKitError
from tavernkit.models._accumulate import collect, keep_partial
from tavernkit.models._bodies import request_body
from tavernkit.models._openai_wire import OpenAIReader
from tavernkit.models._protocol import AsyncContext
from tavernkit.models._reply import Reply, ReplyPiece
from tavernkit.models._request import Request
from tavernkit.models._script import Answer, Body, Disconnect, Failure, Hang, RawBytes, ScriptedReply
from tavernkit.models.errors import ConnectionFailedError, DecodeError, HTTPError

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
