"""What a send asks of the application, the answers, and the result; and what lets a model answer.

A function can stand in for the model.
"""

from __future__ import annotations

import asyncio
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import aclosing
from dataclasses import field
from itertools import chain
from typing import TypeAlias

from tavernkit import models
from tavernkit._arguments import require
from tavernkit._dataclass import dataclass
from tavernkit._values import JsonObject
from tavernkit.errors import ConfigError, TavernKitError, Warn, log_warning
from tavernkit.risu_ai._chat.prompt_message import PromptMessage
from tavernkit.risu_ai._files.settings import Settings
from tavernkit.risu_ai._objects import RisuCharacter, RisuChat
from tavernkit.risu_ai._plan import RisuPlan
from tavernkit.risu_ai._requests.messages import RequestRules
from tavernkit.risu_ai._requests.reference import EMPTY_KEYS, RisuRequest
from tavernkit.stores._variables import VariableChanges


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """A request to a model: the messages as RisuAI would post them, and what else belongs to the body.

    ``plan`` is the prompt they were made of; ``stream`` says whether the user wants the reply piece by piece.
    ``prompt`` has the messages before they were written for a provider, as triggers left them.
    """

    model: str
    """RisuAI's id of the model."""
    messages: list[JsonObject]
    """The messages, in the provider's shape."""
    options: JsonObject
    """Samplers, limits and other keys of the body."""
    stream: bool
    plan: RisuPlan
    prompt: Sequence[PromptMessage] = ()
    streamable: bool = True
    """False if RisuAI needs the whole reply, whatever the user wants."""
    rules: RequestRules = field(default_factory=RequestRules, repr=False)
    """How requests are written for the model."""

    def reference_request(self, *, keys: Mapping[str, str] = EMPTY_KEYS, warn: Warn = log_warning) -> RisuRequest:
        """The request RisuAI would post: address, headers and body in the format of the model's provider.

        Args:
            keys: API keys by provider, as for ``RisuPlan.reference_request()``.
            warn: Called with warnings about differences from RisuAI's request.
        """
        return self.plan.reference_request(keys=keys, stream=self.stream, warn=warn)


@dataclass(frozen=True, slots=True)
class NextChunk:
    """Asks for the next piece of a streamed reply."""

    scripted: bool = True
    """False if no script or trigger sees the text so far, so that it is the same in fewer pieces."""


@dataclass(frozen=True, slots=True)
class Reply:
    """The whole reply; ``alternatives`` are further ones, if the model was asked for several."""

    text: str
    """What the model wrote."""
    alternatives: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Failure:
    """The model could not answer; ``message`` is what the provider says.

    ``body`` is all that it said, which RisuAI shows instead if it wanted a stream.
    """

    message: str
    body: str = ""


@dataclass(frozen=True, slots=True)
class StreamOpened:
    """The reply comes piece by piece."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a streamed reply; ``text`` is None at the end."""

    text: str | None


@dataclass(frozen=True, slots=True)
class Stopped:
    """The user stopped the request."""


Ask: TypeAlias = ModelRequest | NextChunk
Answer: TypeAlias = Reply | Failure | StreamOpened | Chunk | Stopped


class RequestFailedError(TavernKitError):
    """Raise this from a model function when the provider refuses; the message is shown to the user."""


class RequestStoppedError(TavernKitError):
    """Raise this from a model function, or while its pieces are read, when the user stops the reply.

    The send ends without an error; a streamed reply keeps what there is of it.
    """


Model: TypeAlias = models.Model | Callable[[ModelRequest], "str | Iterable[str]"]
"""Answers a request: a model of ``tavernkit.model()``, or a function that returns the reply or its pieces.

A function raises ``RequestFailedError`` when it cannot answer.
"""

AsyncModel: TypeAlias = models.Model | Callable[[ModelRequest], "Awaitable[str] | AsyncIterable[str]"]
"""The same for asynchronous programs."""


@dataclass(frozen=True, slots=True)
class SendError:
    """Why a send failed: a stable code, the message for the user, and what the provider said.

    ``cause`` is the error of the build, if that is what failed; it has the numbers.
    """

    code: str
    message: str
    detail: str = ""
    cause: TavernKitError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SendResult:
    """The outcome. ``chat`` and ``character`` are to be stored, whether the send succeeded or not.

    So are the ``members`` of a group and the ``settings``, in which triggers may have changed personas and a preset
    chain the preset.

    A send that a trigger stopped, or whose error was written into the chat, is not ``ok`` and has no ``error``.
    ``plans`` are the prompts that were built, in order; ``emotions`` the pictures that scripts asked for.
    """

    ok: bool
    chat: RisuChat
    character: RisuCharacter
    members: Sequence[RisuCharacter] = ()
    settings: Settings = field(default_factory=Settings, repr=False)
    error: SendError | None = None
    plans: Sequence[RisuPlan] = ()
    emotions: Sequence[str] = ()
    suggestions: Sequence[str] = ()
    """What the user could say next, if that was asked for (``SendSteps``)."""
    translations: Mapping[str, str] = field(default_factory=dict[str, str])
    """Replies to be shown in another language, by their ids."""
    warnings: Sequence[str] = field(default_factory=tuple[str, ...])
    """Warnings of the send and its builds."""
    variables: VariableChanges = field(default_factory=VariableChanges)
    """What the send changes in the chat's variables; write it with ``variables.apply(store)``."""


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
                answer, chunks = _opened(iter(found))
                ask = steps.send(answer)
    except StopIteration as done:
        return done.value


def _opened(pieces: Iterator[str]) -> tuple[Answer, Iterator[str]]:
    """Wait for the first piece of a reply: a function that yields them fails only then."""
    try:
        first = next(pieces, None)
    except RequestFailedError as error:
        return Failure(str(error)), iter(())
    except RequestStoppedError:
        return Stopped(), iter(())
    return StreamOpened(), _unbroken(pieces if first is None else chain([first], pieces))


def _unbroken(pieces: Iterable[str]) -> Iterator[str]:
    """The pieces of a reply that has begun; one that breaks ends there, and its text stays in the chat."""
    try:
        yield from pieces
    except RequestFailedError as error:
        _warn_of_end(error)


def _warn_of_end(error: TavernKitError) -> None:
    log_warning(f"the reply broke off: {error}")


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
                answer, chunks = await _opened_async(aiter(found))
                ask = steps.send(answer)
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


async def _opened_async(pieces: AsyncIterator[str]) -> tuple[Answer, AsyncIterator[str]]:
    try:
        first = await anext(pieces, None)
    except RequestFailedError as error:
        return Failure(str(error)), pieces
    except RequestStoppedError:
        return Stopped(), pieces
    return StreamOpened(), _rest(first, pieces)


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
        first = await anext(texts, None)
    except models.ModelError as error:
        return Failure(str(error)), None
    return StreamOpened(), _rest(first, texts)


async def _texts(pieces: AsyncGenerator[models.ReplyPiece]) -> AsyncGenerator[str]:
    async with aclosing(pieces):
        async for piece in pieces:
            if piece.text:
                yield piece.text


async def _rest(first: str | None, texts: AsyncIterator[str]) -> AsyncGenerator[str]:
    """The pieces of a stream that has begun; one that breaks ends there, and its text stays in the chat."""
    try:
        if first is not None:
            yield first
        async for text in texts:
            yield text
    except (models.ModelError, RequestFailedError) as error:
        _warn_of_end(error)
    finally:
        if isinstance(texts, AsyncGenerator):
            await texts.aclose()
