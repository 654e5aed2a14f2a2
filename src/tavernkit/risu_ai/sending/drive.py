"""Lets a model function answer what a send asks."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Generator, Iterable, Iterator

from tavernkit.arguments import require
from tavernkit.risu_ai.sending.exchange import (
    Answer,
    Ask,
    AsyncModel,
    Chunk,
    Failure,
    Model,
    NextChunk,
    Reply,
    RequestFailedError,
    StreamOpened,
)
from tavernkit.risu_ai.sending.result import SendResult


def drive(steps: Generator[Ask, Answer, SendResult], model: Model) -> SendResult:
    """Run a send with a function that answers with the reply or an iterable of its pieces."""
    chunks: Iterator[str] = iter(())
    try:
        ask = next(steps)
        while True:
            if isinstance(ask, NextChunk):
                ask = steps.send(Chunk(next(chunks, None)))
                continue
            try:
                found: str | Iterable[str] = model(ask)
            except RequestFailedError as error:
                ask = steps.send(Failure(str(error)))
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
    """Run a send with a function that answers with an awaitable or an asynchronous iterable of pieces."""
    chunks: AsyncIterator[str] | None = None
    try:
        ask = next(steps)
        while True:
            if isinstance(ask, NextChunk):
                ask = steps.send(Chunk(None if chunks is None else await anext(chunks, None)))
                continue
            found = model(ask)
            if isinstance(found, AsyncIterable):
                chunks = aiter(found)
                ask = steps.send(StreamOpened())
                continue
            require("what a model returns", found, Awaitable, "an awaitable or an asynchronous iterable of texts")
            try:
                answer: Answer = Reply(await found)
            except RequestFailedError as error:
                answer = Failure(str(error))
            ask = steps.send(answer)
    except StopIteration as done:
        return done.value
