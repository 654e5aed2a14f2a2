"""The default model of a new server: scripted, without key or network."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from tavernkit._values import JsonObject, is_list, is_object
from tavernkit.models import Reply, ReplyPiece, Request, ScriptedModel
from tavernkit.models._protocol import AsyncContext
from tavernkit.testing import Answer

QUOTED_CHARACTERS = 200


class ExampleModel(AsyncContext):
    """Answers every request with a similar line; each request has its own script, so memory does not grow.

    ``latency`` is a pause before each answer, for load tests.
    """

    name = ""
    dialect = "openai"

    def __init__(self, *, latency: float = 0.0) -> None:
        self._latency = latency

    async def send(self, request: Request, *, on_delta: Callable[[ReplyPiece], object] | None = None) -> Reply:
        """Answer at once, or word by word."""
        await asyncio.sleep(self._latency)
        return await ScriptedModel(_reply).send(request, on_delta=on_delta)

    async def stream(self, request: Request) -> AsyncGenerator[ReplyPiece]:
        """Answer word by word."""
        await asyncio.sleep(self._latency)
        async with aclosing(ScriptedModel(_reply).stream(request)) as pieces:
            async for piece in pieces:
                yield piece


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
