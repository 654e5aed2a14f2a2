"""The default model of a new server: scripted, without key or network."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from tavernkit._values import JsonObject, is_list, is_object
from tavernkit.dialects._messages import MessageLike, read_content
from tavernkit.models import Accumulator, Reply, ReplyPiece, Request, ScriptedModel
from tavernkit.models._protocol import AsyncContext
from tavernkit.models._readers import OpenAIReader
from tavernkit.prompt._block import Message
from tavernkit.testing import Answer

QUOTED_CHARACTERS = 200
NOTHING = "..."
"""What is quoted where the user has said nothing."""


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
        messages = request.messages or ()
        if on_delta is not None or any(isinstance(each, Message) and each.attachments for each in messages):
            return await ScriptedModel(_reply).send(request, on_delta=on_delta)
        # The same as ScriptedModel, without making a request body that is never sent.
        said = (_text(each) for each in reversed(messages) if _role(each) == "user")
        answer, collected = _answer(next(said, "") or NOTHING), Accumulator()
        collected.add(OpenAIReader().read(answer.body(request.model or ScriptedModel().name)))
        return collected.reply()

    async def stream(self, request: Request) -> AsyncGenerator[ReplyPiece]:
        """Answer word by word."""
        await asyncio.sleep(self._latency)
        async with aclosing(ScriptedModel(_reply).stream(request)) as pieces:
            async for piece in pieces:
                yield piece


def _reply(request: JsonObject) -> Answer:
    return _answer(_last_words(request))


def _answer(said: str) -> Answer:
    quoted = said[:QUOTED_CHARACTERS]
    text = f'*nods slowly.* "{quoted}", you say. Go on. (A scripted model answers; see --upstream for a real one.)'
    return Answer(text=text, deltas=[f"{word} " for word in text.split(" ")[:-1]] + [text.rsplit(" ", 1)[-1]])


def _last_words(request: JsonObject) -> str:
    messages = request.get("messages")
    for message in reversed(messages if is_list(messages) else []):
        if is_object(message) and message.get("role") == "user":
            return read_content(message.get("content"))[0] or NOTHING
    return NOTHING


def _role(message: MessageLike) -> object:
    return message.role if isinstance(message, Message) else message.get("role")


def _text(message: MessageLike) -> str:
    return message.content if isinstance(message, Message) else read_content(message.get("content"))[0]
