"""The protocol of models, and models around models: retries, fallbacks, time limits."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from email.utils import parsedate_to_datetime
from types import TracebackType
from typing import Final, Protocol, Self, TypeAlias, TypeVar, runtime_checkable

from tavernkit._arguments import require
from tavernkit.errors import ConfigError
from tavernkit.models._limits import RETRIES, RETRY_BASE_SECONDS, RETRY_CAP_SECONDS
from tavernkit.models._reply import Reply, ReplyPiece
from tavernkit.models._request import Request
from tavernkit.models._streams import collect, keep_partial
from tavernkit.models.errors import (
    ConnectionFailedError,
    HTTPError,
    ModelError,
    ProviderError,
    RequestTimeoutError,
)


class AsyncContext:
    """Closes itself at the end of ``async with``."""

    async def aclose(self) -> None:
        """Close connections."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


@runtime_checkable
class Model(Protocol):
    """Answers requests. Errors are ``ModelError`` and its subclasses.

    A request that names no model asks for ``name``. ``async with model:`` or ``aclose()`` closes connections.
    """

    @property
    def name(self) -> str:
        """The model's name, as the provider spells it; empty if requests must name one."""
        ...

    @property
    def dialect(self) -> str:
        """The protocol it speaks: ``openai``, ``anthropic``, ``google``, ``text``."""
        ...

    async def send(self, request: Request, *, on_delta: Callable[[ReplyPiece], object] | None = None) -> Reply:
        """Send a request and return the whole reply.

        Args:
            request: What to send.
            on_delta: Called with each piece of the reply as it arrives; this makes the reply a stream.

        Raises:
            ModelError: There is no usable reply; ``partial`` is the text before a stream broke.
        """
        ...

    def stream(self, request: Request) -> AsyncGenerator[ReplyPiece]:
        """Send a request and iterate over the reply as it arrives. Close the iterator to cancel the request."""
        ...

    async def aclose(self) -> None:
        """Close connections."""
        ...

    async def __aenter__(self) -> Self:
        """Return the model."""
        ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close connections."""
        ...


T = TypeVar("T")

MODEL: Final = 'a model, such as tk.model("openai:gpt-4o")'
RETRIED_STATUSES: Final = frozenset((408, 409, 425, 429, 500, 502, 503, 529))

Backoff: TypeAlias = Callable[[int], float]
"""Gets the number of a retry, from 0, and returns how many seconds to wait before it."""


class ModelWrapper(AsyncContext):
    """A model that wraps another one; the base class of wrappers, including your own.

    Override ``send_whole()`` and ``stream()``; ``send()`` with ``on_delta`` goes through ``stream()``.
    """

    def __init__(self, inner: Model) -> None:
        """Wrap a model."""
        require("model", inner, Model, MODEL)
        self.inner = inner

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.inner!r})"

    @property
    def name(self) -> str:
        """The name of the model inside."""
        return self.inner.name

    @property
    def dialect(self) -> str:
        """The protocol of the model inside."""
        return self.inner.dialect

    async def send(self, request: Request, *, on_delta: Callable[[ReplyPiece], object] | None = None) -> Reply:
        """Send a request and return the whole reply; with ``on_delta`` it is streamed.

        Args:
            request: The request.
            on_delta: Called with each piece of the reply as it arrives.
        """
        if on_delta is None:
            return await self.send_whole(request)
        async with aclosing(self.stream(request)) as pieces:
            return await collect(pieces, on_delta)

    async def send_whole(self, request: Request) -> Reply:
        """Send a request without streaming."""
        return await self.inner.send(request)

    def stream(self, request: Request) -> AsyncGenerator[ReplyPiece]:
        """Send a request and iterate over the reply as it arrives."""
        return self.inner.stream(request)

    async def aclose(self) -> None:
        """Close the model inside."""
        await self.inner.aclose()


def jittered_backoff(retry: int) -> float:
    """Return a delay that doubles each time, up to a limit, with jitter so that clients spread out."""
    return min(RETRY_BASE_SECONDS * 2**retry, RETRY_CAP_SECONDS) * (0.5 + random.random() / 2)  # not a secret


def with_retries(
    model: Model,
    *,
    retries: int = RETRIES,
    backoff: Backoff = jittered_backoff,
    max_wait: float = RETRY_CAP_SECONDS,
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
) -> Model:
    """Retry requests that failed before the model began to answer.

    Connections that break before the server answers are retried, and the statuses 408, 409, 425, 429, 500, 502, 503 and
    529. Time-outs, including a gateway's (504), are not: the model may already be working, and would start again.

    Args:
        model: The model.
        retries: How often a request is sent again.
        backoff: Seconds to wait, unless the provider says how long with ``Retry-After``.
        max_wait: A provider that asks for a longer pause is not asked again.
        sleep: The function that waits; tests pass their own.

    Raises:
        ConfigError: ``retries`` is negative.
    """
    if retries < 0:
        raise ConfigError("retries must be 0 or more", code="INVALID_RETRIES")
    return _Retrying(model, retries, backoff, max_wait, sleep)


def fallback(first: Model, *others: Model) -> Model:
    """Ask the next model if one fails before it begins to answer. Each gets requests under its own name.

    Args:
        first: The model that is asked first.
        others: Models to ask if it fails, in order.
    """
    for model in others:
        require("model", model, Model, MODEL)
    return _Fallback((first, *others))


def with_timeout(model: Model, seconds: float) -> Model:
    """Limit how long a reply, or the next piece of a stream, may take.

    Args:
        model: The model.
        seconds: How long a whole reply, or the next piece of a stream, may take.
    """
    require("seconds", seconds, float)
    return _TimeLimit(model, seconds)


class _Retrying(ModelWrapper):
    def __init__(
        self,
        inner: Model,
        retries: int,
        backoff: Backoff,
        max_wait: float,
        sleep: Callable[[float], Awaitable[object]],
    ) -> None:
        super().__init__(inner)
        self._retries = retries
        self._backoff = backoff
        self._max_wait = max_wait
        self._sleep = sleep

    async def send_whole(self, request: Request) -> Reply:
        retry = 0
        while True:
            try:
                return await self.inner.send(request)
            except ModelError as error:
                delay = self._delay(error, retry)
                if delay is None:
                    raise
            retry += 1
            await self._sleep(delay)

    async def stream(self, request: Request) -> AsyncGenerator[ReplyPiece]:
        retry, started = 0, False
        while True:
            try:
                async with aclosing(self.inner.stream(request)) as pieces:
                    async for piece in pieces:
                        started = started or piece.spoken
                        yield piece
            except ModelError as error:
                delay = None if started else self._delay(error, retry)
                if delay is None:
                    raise
            else:
                return
            retry += 1
            await self._sleep(delay)

    def _delay(self, error: ModelError, retry: int) -> float | None:
        """Return how long to wait before the next attempt; None if there is none."""
        if retry >= self._retries or error.partial is not None or not _may_retry(error):
            return None
        asked = retry_after(error)
        if asked is None:
            return self._backoff(retry)
        return None if asked > self._max_wait else max(asked, self._backoff(retry))


class _Fallback(ModelWrapper):
    def __init__(self, models: tuple[Model, ...]) -> None:
        super().__init__(models[0])
        self._models = models

    def __repr__(self) -> str:
        return f"fallback({', '.join(map(repr, self._models))})"

    async def send_whole(self, request: Request) -> Reply:
        for model in self._models:
            try:
                return await model.send(_own(request, model))
            except ModelError as error:
                if error.partial is not None or model is self._models[-1]:
                    raise
        raise AssertionError("the last model returns or raises")

    async def stream(self, request: Request) -> AsyncGenerator[ReplyPiece]:
        started = False
        for model in self._models:
            try:
                async with aclosing(model.stream(_own(request, model))) as pieces:
                    async for piece in pieces:
                        started = started or piece.spoken
                        yield piece
            except ModelError:
                if started or model is self._models[-1]:
                    raise
            else:
                return

    async def aclose(self) -> None:
        for model in self._models:
            await model.aclose()


class _TimeLimit(ModelWrapper):
    def __init__(self, inner: Model, seconds: float) -> None:
        super().__init__(inner)
        self._seconds = seconds

    async def send_whole(self, request: Request) -> Reply:
        return await self._within(self.inner.send(request))

    def stream(self, request: Request) -> AsyncGenerator[ReplyPiece]:
        return keep_partial(self._pieces(request))

    async def _pieces(self, request: Request) -> AsyncGenerator[ReplyPiece]:
        async with aclosing(self.inner.stream(request)) as pieces:
            while (piece := await self._within(anext(pieces, None))) is not None:
                yield piece

    async def _within(self, work: Awaitable[T]) -> T:
        try:
            async with asyncio.timeout(self._seconds):
                return await work
        except TimeoutError as error:
            if isinstance(error, ModelError):
                raise
            raise RequestTimeoutError(f"no answer within {self._seconds:g} seconds") from error


def _own(request: Request, model: Model) -> Request:
    return request.replace(model=model.name) if model.name else request


def _may_retry(error: ModelError) -> bool:
    if isinstance(error, (HTTPError, ProviderError)):
        return error.status in RETRIED_STATUSES
    return isinstance(error, ConnectionFailedError) and not error.answering


def retry_after(error: ModelError) -> float | None:
    """Return how many seconds ``Retry-After`` asks to wait; a date is relative to the ``Date`` header."""
    if not isinstance(error, HTTPError):
        return None
    text = _header(error.headers, "retry-after")
    try:
        return max(0.0, float(text))  # in this order, NaN is 0
    except ValueError:
        pass
    try:
        moment, now = parsedate_to_datetime(text), parsedate_to_datetime(_header(error.headers, "date"))
        return max((moment - now).total_seconds(), 0.0)
    except (ValueError, TypeError):
        return None


def _header(headers: Mapping[str, str], name: str) -> str:
    return next((value for key, value in headers.items() if key.lower() == name), "")
