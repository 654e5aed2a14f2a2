"""Lets a model, or a function in its place, answer what a send asks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Generator, Iterable, Iterator
from contextlib import aclosing

from tavernkit import models
from tavernkit._arguments import require
from tavernkit.errors import ConfigError, log_warning
from tavernkit.risu_ai._sending.exchange import (
    Answer,
    Ask,
    AsyncModel,
    Chunk,
    Failure,
    Model,
    ModelRequest,
    NextChunk,
    Reply,
    RequestFailedError,
    RequestStoppedError,
    SendResult,
    Stopped,
    StreamOpened,
)


def drive(steps: Generator[Ask, Answer, SendResult], model: Model) -> SendResult:
    """Run a send with a model, or a function that answers with the reply or an iterable of its pieces.

    Args:
        steps: The send.
        model: What answers.

    Raises:
        ConfigError: A model is used inside an event loop, which has to wait for it.
    """
    if isinstance(model, models.Model):
        return _drive_model(steps, model)
    chunks: Iterator[str] = iter(())
    try:
        ask = next(steps)
        while True:
            if isinstance(ask, NextChunk):
                try:
                    piece: Answer = Chunk(next(chunks, None))
                except RequestStoppedError:
                    piece = Stopped()
                ask = steps.send(piece)
                continue
            try:
                found: str | Iterable[str] = model(ask)
            except RequestFailedError as error:
                ask = steps.send(Failure(str(error)))
                continue
            except RequestStoppedError:
                ask = steps.send(Stopped())
                continue
            if isinstance(found, str):
                ask = steps.send(Reply(found))
            else:
                require("what a model returns", found, Iterable, "text or an iterable of texts")
                chunks = iter(found)
                ask = steps.send(StreamOpened())
    except StopIteration as done:
        return done.value


async def drive_async(steps: Generator[Ask, Answer, SendResult], model: AsyncModel) -> SendResult:
    """Run a send with a model, or a function that answers with an awaitable or an asynchronous iterable of pieces.

    Args:
        steps: The send.
        model: What answers.
    """
    chunks: AsyncIterator[str] | None = None
    answer: Answer
    try:
        ask = next(steps)
        while True:
            if isinstance(ask, NextChunk):
                try:
                    piece: Answer = Chunk(None if chunks is None else await anext(chunks, None))
                except RequestStoppedError:
                    piece = Stopped()
                ask = steps.send(piece)
                continue
            if isinstance(model, models.Model):
                answer, chunks = await _asked(model, ask)
                ask = steps.send(answer)
                continue
            found = model(ask)
            if isinstance(found, AsyncIterable):
                chunks = aiter(found)
                ask = steps.send(StreamOpened())
                continue
            require("what a model returns", found, Awaitable, "an awaitable or an asynchronous iterable of texts")
            try:
                answer = Reply(await found)
            except RequestFailedError as error:
                answer = Failure(str(error))
            except RequestStoppedError:
                answer = Stopped()
            ask = steps.send(answer)
    except StopIteration as done:
        return done.value


def _drive_model(steps: Generator[Ask, Answer, SendResult], model: models.Model) -> SendResult:
    async def driven() -> SendResult:
        async with model:  # its connections belong to this event loop
            return await drive_async(steps, model)

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(driven())
    raise ConfigError("an event loop is running: use send_async", code="EVENT_LOOP_RUNNING")


async def _asked(model: models.Model, asked: ModelRequest) -> tuple[Answer, AsyncIterator[str] | None]:
    """Ask a model under its own name, if it has one: RisuAI's names are not the providers'."""
    options = {name: value for name, value in asked.options.items() if name != "model"}
    request = models.Request(model=model.name or asked.model, messages=asked.messages, options=options)
    try:
        if not asked.stream:
            return Reply((await model.send(request)).text), None
        texts = _texts(model.stream(request))
        first = await anext(texts, "")
    except models.ModelError as error:
        return Failure(str(error)), None
    return StreamOpened(), _rest(first, texts)


async def _texts(pieces: AsyncGenerator[models.ReplyPiece]) -> AsyncGenerator[str]:
    async with aclosing(pieces):
        async for piece in pieces:
            if piece.text:
                yield piece.text


async def _rest(first: str, texts: AsyncGenerator[str]) -> AsyncGenerator[str]:
    """The pieces of a stream that has begun; one that breaks ends there, and its text stays in the chat."""
    try:
        async with aclosing(texts):
            yield first
            async for text in texts:
                yield text
    except models.ModelError as error:
        log_warning(f"the reply broke off: {error}")
