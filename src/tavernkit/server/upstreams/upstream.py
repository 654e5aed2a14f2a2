"""One model server: retries, time limits, circuit breaking, and what its failures mean."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import aclosing, asynccontextmanager, contextmanager
from contextvars import ContextVar

from tavernkit._values import Json
from tavernkit.errors import log_warning
from tavernkit.models import (
    Accumulator,
    AnthropicModel,
    ConnectionFailedError,
    Endpoint,
    GoogleModel,
    HTTPError,
    Model,
    ModelError,
    ModelWrapper,
    OpenAIModel,
    ProviderError,
    Reply,
    ReplyPiece,
    Request,
    RequestTimeoutError,
    ServerFields,
    TextModel,
    with_retries,
    with_timeout,
)
from tavernkit.models._http import HttpModel
from tavernkit.models._protocol import Backoff, jittered_backoff, retry_after
from tavernkit.server.config import SCRIPTED, UpstreamConfig
from tavernkit.server.errors import ServiceError
from tavernkit.server.limits import BREAKER_FAILURES, BREAKER_SECONDS, RETRY_CAP_SECONDS
from tavernkit.server.upstreams.context_lengths import ContextLength
from tavernkit.server.upstreams.listeners import ClientDisconnectedError, Listener

CANCELLED = "client_disconnected"
OPENAI_HOST = "api.openai.com"
_notes: ContextVar[list[str] | None] = ContextVar("_notes", default=None)
MODELS = {"openai": OpenAIModel, "anthropic": AnthropicModel, "google": GoogleModel, "text": TextModel}
"""What speaks each dialect."""


class GuardedModel(ModelWrapper):
    """A model that is paused for a while when it keeps failing."""

    def __init__(self, inner: Model, breaker: CircuitBreaker, name: str) -> None:
        """Wrap a model.

        Args:
            inner: The model.
            breaker: Counts failures.
            name: The name of the upstream.
        """
        super().__init__(inner)
        self._breaker = breaker
        self._upstream = name

    async def send_whole(self, request: Request) -> Reply:
        """Send a request, unless the upstream failed repeatedly."""
        self._admit()
        try:
            reply = await self.inner.send(request)
        except ModelError as error:
            self._breaker.record(ok=not is_outage(error))
            raise
        except BaseException:
            self._breaker.release()  # cancelled, or our own error: says nothing about the upstream
            raise
        self._breaker.record(ok=True)
        return reply

    async def stream(self, request: Request) -> AsyncGenerator[ReplyPiece]:
        """Stream a reply, unless the upstream failed repeatedly."""
        self._admit()
        started = False
        try:
            async with aclosing(self.inner.stream(request)) as pieces:
                async for piece in pieces:
                    started = started or piece.spoken
                    yield piece
        except ModelError as error:
            self._breaker.record(ok=not is_outage(error))
            raise
        except BaseException:
            if started:
                self._breaker.record(ok=True)
            else:
                self._breaker.release()
            raise
        self._breaker.record(ok=True)

    def _admit(self) -> None:
        left = self._breaker.wait()
        if left > 0:
            raise ServiceError(
                503, f"the upstream {self._upstream!r} failed repeatedly", code="upstream_unavailable", retry_after=left
            )


class CircuitBreaker:
    """Opens after several failures in a row; after a pause, one request is let through, and its outcome decides."""

    def __init__(
        self,
        *,
        failures: int = BREAKER_FAILURES,
        seconds: float = BREAKER_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._allowed = failures
        self._seconds = seconds
        self._clock = clock
        self._failed = 0
        self._open_until = 0.0
        self._trying = False

    def wait(self) -> float:
        """Return the seconds until a request may be sent; 0 means now, and then ``record()`` must follow."""
        if self._failed < self._allowed:
            return 0.0
        left = self._open_until - self._clock()
        if left > 0:
            return left
        if self._trying:
            return min(self._seconds, 1.0)
        self._trying = True
        return 0.0

    def record(self, *, ok: bool) -> None:
        """Record the outcome of a request."""
        self._trying = False
        if ok:
            self._failed = 0
            return
        self._failed += 1
        if self._failed >= self._allowed:
            self._open_until = self._clock() + self._seconds

    def release(self) -> None:
        """Record that a request ended without an outcome, because the client disconnected."""
        self._trying = False

    @property
    def is_open(self) -> bool:
        """True if requests are refused now."""
        return self._failed >= self._allowed and self._open_until > self._clock()


class Upstream:
    """One model server."""

    def __init__(
        self,
        name: str,
        config: UpstreamConfig,
        model: Model,
        *,
        breaker: CircuitBreaker | None = None,
        backoff: Backoff = jittered_backoff,
    ) -> None:
        self.name = name
        self.config = config
        self.model = model
        self.breaker = breaker or CircuitBreaker()
        self._api_key: str | None = None
        self.context = ContextLength(config.context_length, self._get if _reports_context(config) else None)
        self._backoff = backoff
        self._users: Counter[int] = Counter()

    async def replace_model(self, model: Model, api_key: str | None = None) -> None:
        """Use another model from now on; the old one is closed after its last request.

        Args:
            model: The model.
            api_key: Its key, if it is not the one of the settings.
        """
        self._api_key = api_key
        old, self.model = self.model, model
        if not self._users[id(old)]:
            await old.aclose()

    async def _get(self, path: str) -> Json:
        return await self.call("GET", path)

    async def call(self, method: str, path: str, body: Mapping[str, object] | None = None) -> Json:
        """Call another endpoint of the server.

        Args:
            method: ``GET`` or ``POST``.
            path: A path below ``/v1``, or with ``../`` next to it.
            body: The request body.
        """
        server = make_model(self.config, api_key=self._api_key)
        assert isinstance(server, HttpModel)
        async with server:
            url = f"{server.endpoint.base_url}/{path.removeprefix('../')}" if path.startswith("../") else path
            return await server.call(method, url, **({} if body is None else {"json": body}))

    @property
    def fields(self) -> ServerFields | None:
        """The options that the server accepts, if configured."""
        return _fields(self.config)

    def with_model(self, request: Request) -> Request:
        """Return a request with a model: the settings', else the preset's, else the upstream's own name."""
        name = self.config.model or request.model or self.name
        return request if name == request.model else request.replace(model=name)

    async def ask(self, request: Request, listener: Listener) -> Reply:
        """Send a request; if a stream breaks after some text, return the partial reply.

        Failures before any text are retried, then raised. When the client disconnects, the request is cancelled.

        Args:
            request: The request.
            listener: The client.
        """
        collected = Accumulator()
        work = asyncio.create_task(self._work(request, listener, collected))
        gone = asyncio.create_task(listener.gone.wait())
        try:
            await asyncio.wait((work, gone), return_when=asyncio.FIRST_COMPLETED)
        finally:
            gone.cancel()
            if not work.done():
                work.cancel()
                await asyncio.wait((work,))
        outcome = asyncio.CancelledError() if work.cancelled() else work.exception()
        if outcome is None:
            return work.result()
        said = collected.reply()
        if isinstance(outcome, asyncio.CancelledError):
            if not (said.text or said.reasoning):
                raise ClientDisconnectedError
            return collected.reply(interrupted=CANCELLED)
        if isinstance(outcome, ModelError) and (said.text or said.reasoning):
            return collected.reply(interrupted=str(outcome) or type(outcome).__name__)
        if isinstance(outcome, ModelError) and collected.started:
            # The client has seen part of a call: a retry would give it another part.
            raise as_service_error(outcome)
        raise outcome

    async def _work(self, request: Request, listener: Listener, collected: Accumulator) -> Reply:
        async with self.borrow() as model:
            patient = with_timeout(model, self.config.timeout)
            retried = with_retries(
                patient, retries=self.config.max_retries, backoff=self._backoff, max_wait=RETRY_CAP_SECONDS
            )
            # Outside the retries, so that a request counts once.
            asked = GuardedModel(retried, self.breaker, self.name)
            if not listener.streaming:
                return await asked.send(request)
            async with aclosing(asked.stream(request)) as pieces:
                async for piece in pieces:
                    added = collected.add(piece)
                    if added.spoken:  # until the first piece, a failure can set the HTTP status
                        await listener.piece(added)
            return collected.reply()

    @asynccontextmanager
    async def borrow(self) -> AsyncGenerator[Model]:
        """Use the model inside the ``with`` block: one that is replaced meanwhile is closed at its end."""
        model = self.model
        self._users[id(model)] += 1
        try:
            yield model
        finally:
            self._users[id(model)] -= 1
            if not self._users[id(model)]:
                del self._users[id(model)]
                if model is not self.model:
                    await model.aclose()


def make_model(config: UpstreamConfig, *, api_key: str | None = None) -> Model:
    """Make the model of an upstream; requests name their model."""
    if config.dialect == SCRIPTED:
        from tavernkit.server.upstreams.example_model import ExampleModel

        return ExampleModel(latency=config.latency)
    own = config.api_key.get_secret_value() if config.api_key is not None else None
    kind = MODELS[config.dialect]
    usual = kind.default_endpoint if config.dialect in ("anthropic", "google") else Endpoint()
    endpoint = Endpoint(
        base_url=config.base_url or usual.base_url,
        api_key=api_key or own,
        api_prefix=config.api_prefix if config.dialect in ("openai", "text") else usual.api_prefix,
        timeout=config.timeout,
    )
    return kind("", endpoint, warn=_note, fields=_fields(config))


def _fields(config: UpstreamConfig) -> ServerFields | None:
    if config.fields is None and not config.body:
        return None
    taken = frozenset(config.fields) if config.fields is not None else None
    return ServerFields(taken=taken, always=config.body)


@contextmanager
def left_out() -> Generator[list[str]]:
    """Collect options that are not sent to models inside the ``with`` block."""
    notes: list[str] = []
    token = _notes.set(notes)
    try:
        yield notes
    finally:
        _notes.reset(token)


def _note(warning: str) -> None:
    notes = _notes.get()
    if notes is None:
        log_warning(warning)
    elif warning not in notes:
        notes.append(warning)


def _reports_context(config: UpstreamConfig) -> bool:
    """Return True if a server may report the context sizes of its models; OpenAI's own does not."""
    return config.dialect in ("openai", "text") and config.base_url is not None and OPENAI_HOST not in config.base_url


def as_service_error(error: Exception) -> ServiceError:
    """Return the client's error for an upstream failure."""
    if isinstance(error, ServiceError):
        return error
    if isinstance(error, HTTPError):
        if error.status == 429:
            return ServiceError(
                429, f"the model's server: {error}", code="upstream_rate_limited", retry_after=retry_after(error)
            )
        status = 400 if error.status in (400, 413, 422) else 502
        return ServiceError(status, f"the model's server: {error}", code="upstream_error")
    if isinstance(error, RequestTimeoutError):
        return ServiceError(504, str(error), code="upstream_timeout")
    return ServiceError(502, f"the model's server failed: {error}", code="upstream_error")


def kind_of_failure(error: Exception) -> str | None:
    """Return the route condition of an error; None if another upstream would fail the same way."""
    if isinstance(error, ServiceError):
        return "error" if error.code == "upstream_unavailable" else None
    if isinstance(error, RequestTimeoutError):
        return "timeout"
    if not isinstance(error, ModelError):
        return None
    status = _status(error)
    if status == 429:
        return "rate_limit"
    said = str(error).lower()
    if status in (400, 413, 422):
        too_long = "context" in said or "too long" in said or ("maximum" in said and "token" in said)
        return "context_length" if too_long else None
    return "error"


def failure_reason(error: ModelError) -> str:
    """Return a short reason for metrics."""
    if isinstance(error, HTTPError):
        return str(error.status)
    if isinstance(error, RequestTimeoutError):
        return "timeout"
    return "connection" if isinstance(error, ConnectionFailedError) else "no_reply"


def is_outage(error: ModelError) -> bool:
    """Return True if an error is the upstream's fault, not that of the request."""
    status = _status(error)
    return status is None or status >= 500


def _status(error: ModelError) -> int | None:
    """Return the HTTP status of an error, also of one inside a 200 answer, as routers report those behind them."""
    return error.status if isinstance(error, (HTTPError, ProviderError)) else None
