"""A model that says what it was told to say: for tests without a network."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import TypeAlias

from tavernkit.arguments import checked, require
from tavernkit.errors import TavernKitError
from tavernkit.models.script import Answer, Body, Disconnect, Failure, Hang, RawBytes, ScriptedReply
from tavernkit.values import JsonObject, thaw_object
from tavernkit.vibe_tavern.errors import ConnectionFailedError, DecodeError
from tavernkit.vibe_tavern.transports import chat_body
from tavernkit.vibe_tavern.transports.base import ChatChunk, ChatResponse

Script: TypeAlias = ScriptedReply | str | BaseException | Callable[[JsonObject], ScriptedReply | str]
"""One entry of a script: a reply, text to answer, an exception to raise, or a function of the request."""


class ScriptExhaustedError(TavernKitError):
    """A scripted model was asked more often than it has replies."""


class ScriptedModel:
    """Answers requests from a script, in order, and remembers them.

    It is a transport for ``PromptRunner``; :func:`tavernkit.testing.serve` offers the same over HTTP.

    >>> model = ScriptedModel("Hello.", failure(500), calls(tool_call("roll", {"sides": 6})))   # doctest: +SKIP
    >>> runner = PromptRunner(model)                                                            # doctest: +SKIP
    """

    dialect = "openai"

    def __init__(self, *script: Script, name: str = "scripted-model", repeat_last: bool = False) -> None:
        require("name", name, str)
        require("repeat_last", repeat_last, bool)
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

    @checked
    def next_reply(self, request: JsonObject) -> ScriptedReply:
        """Take a request and give the next reply of the script."""
        with self._lock:
            position = len(self.requests)
            self.requests.append(thaw_object(request))
        if position >= len(self._script) and self._repeat_last and self._script:
            position = len(self._script) - 1
        if position >= len(self._script):
            raise ScriptExhaustedError(f"request {position + 1} came, and the script has {len(self._script)} replies")
        entry = self._script[position]
        if isinstance(entry, BaseException):
            raise entry
        reply = entry(request) if callable(entry) else entry
        require("what a function of the script returns", reply, ScriptedReply | str, "a reply or text")
        return Answer(text=reply) if isinstance(reply, str) else reply

    @checked
    async def complete(self, request: JsonObject) -> ChatResponse:
        """Answer at once."""
        reply = await _settled(self.next_reply(request))
        if isinstance(reply, Body):
            return ChatResponse(body=thaw_object(reply.body))
        return ChatResponse(body=reply.body(str(request.get("model") or self.name)))

    @asynccontextmanager
    @checked
    async def stream(self, request: JsonObject) -> AsyncGenerator[AsyncIterator[ChatChunk]]:
        """Answer piece by piece."""
        reply = self.next_reply(request)
        options = request.get("stream_options")
        include_usage = isinstance(options, dict) and options.get("include_usage") is True

        async def chunks() -> AsyncGenerator[ChatChunk]:
            if isinstance(reply, (Hang, Disconnect)):
                for piece in reply.after:
                    yield ChatChunk(text=piece)
            settled = await _settled(reply)
            if isinstance(settled, Body):
                yield chat_body.chunk_of(settled.body)
                return
            for event in settled.events(self.name, include_usage=include_usage):
                yield chat_body.chunk_of(event)

        async with aclosing(chunks()) as pieces:
            yield pieces

    async def aclose(self) -> None:
        """Nothing to close."""


async def _settled(reply: ScriptedReply) -> Answer | Body:
    """Turn a reply that is none into what a real transport raises."""
    if isinstance(reply, Failure):
        raise chat_body.http_error(reply.status, reply.body, headers=reply.headers)
    if isinstance(reply, Hang):
        await asyncio.Event().wait()
    if isinstance(reply, (Hang, Disconnect)):
        raise ConnectionFailedError("the scripted connection broke")
    if isinstance(reply, RawBytes):
        raise DecodeError("scripted raw bytes only make sense over HTTP: use tavernkit.testing.serve")
    return reply
