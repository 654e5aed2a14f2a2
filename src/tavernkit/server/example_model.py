"""The model a fresh server talks to: scripted, no key, no network."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

from tavernkit.testing import Answer, ScriptedModel
from tavernkit.values import JsonObject, is_list, is_object
from tavernkit.vibe_tavern import ChatChunk, ChatResponse

QUOTED_CHARACTERS = 200


class ExampleModel:
    """Answers every request with the same kind of line; a request is a script of its own, so nothing piles up.

    ``latency`` is waited before each answer, for load tests.
    """

    dialect = "openai"

    def __init__(self, *, latency: float = 0.0) -> None:
        self._latency = latency

    async def complete(self, request: JsonObject) -> ChatResponse:
        """Answer at once."""
        await asyncio.sleep(self._latency)
        return await ScriptedModel(_reply(request)).complete(request)

    @asynccontextmanager
    async def stream(self, request: JsonObject) -> AsyncGenerator[AsyncIterator[ChatChunk]]:
        """Answer word by word."""
        await asyncio.sleep(self._latency)
        async with ScriptedModel(_reply(request)).stream(request) as chunks:
            yield chunks

    async def aclose(self) -> None:
        """Nothing to close."""


def _reply(request: JsonObject) -> Answer:
    said = _last_words(request)
    text = f'*nods slowly.* "{said}", you say. Go on. (A scripted model answers; see --upstream for a real one.)'
    return Answer(text=text, deltas=[f"{word} " for word in text.split(" ")[:-1]] + [text.rsplit(" ", 1)[-1]])


def _last_words(request: JsonObject) -> str:
    messages = request.get("messages")
    for message in reversed(messages if is_list(messages) else []):
        if is_object(message) and message.get("role") == "user" and isinstance(message.get("content"), str):
            return str(message["content"])[:QUOTED_CHARACTERS]
    return "..."
