"""Named model servers: retries, time limits, circuit breaking."""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import AbstractContextManager, aclosing, asynccontextmanager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Literal, Protocol

from tavernkit.errors import ConfigError, log_warning
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
from tavernkit.models.wrappers import Backoff, jittered_backoff, retry_after
from tavernkit.server.circuit_breaker import CircuitBreaker
from tavernkit.server.config import SCRIPTED, ServerConfig, UpstreamConfig
from tavernkit.server.context_lengths import ContextLength
from tavernkit.server.errors import ServiceError
from tavernkit.server.limits import RETRY_CAP_SECONDS
from tavernkit.values import Json
from tavernkit.vibe_tavern import OpenTelemetryInstrumenter

CANCELLED = "client_disconnected"
OPENAI_HOST = "api.openai.com"
DIALECT_NOT_AVAILABLE = "dialect_not_available"
_notes: ContextVar[list[str] | None] = ContextVar("_notes", default=None)
_MODELS = {"openai": OpenAIModel, "anthropic": AnthropicModel, "google": GoogleModel, "text": TextModel}


@dataclass(frozen=True, slots=True)
class Speaks:
    """Who speaks from here on; ``lead`` is what stands before their words in one text of all speakers."""

    speaker: str
    lead: str


class Listener(Protocol):
    """A client that waits for a reply."""

    @property
    def streaming(self) -> bool:
        """Whether pieces are wanted."""
        ...

    @property
    def gone(self) -> asyncio.Event:
        """Set when the client has disconnected."""
        ...

    async def piece(self, piece: ReplyPiece | Speaks) -> None:
        """Take a piece; may wait for a slow client."""
        ...


class ClientDisconnectedError(Exception):
    """The client left before the model said anything."""


class GuardedModel(ModelWrapper):
    """A model that is left alone for a while when it keeps failing."""

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
            self._breaker.record(ok=not _is_outage(error))
            raise
        except BaseException:
            self._breaker.release()  # cancelled, or our own mistake: says nothing about the upstream
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
            self._breaker.record(ok=not _is_outage(error))
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
        self.context = ContextLength(config.context_length, self._get if _tells(config) else None)
        self._backoff = backoff
        self._users: Counter[int] = Counter()

    async def replace_model(self, model: Model, api_key: str | None = None) -> None:
        """Use another model from now on; the old one is closed when the last of its requests has ended.

        Args:
            model: The model.
            api_key: The key that it uses, if that is not the one of the settings.
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
            path: A path below ``/v1``, or with ``../`` beside it.
            body: What is posted.
        """
        server = make_model(self.config, api_key=self._api_key)
        assert isinstance(server, HttpModel)
        async with server:
            url = f"{server.endpoint.base_url}/{path.removeprefix('../')}" if path.startswith("../") else path
            return await server.call(method, url, **({} if body is None else {"json": body}))

    @property
    def fields(self) -> ServerFields | None:
        """What the server takes, if the settings say so."""
        return _fields(self.config)

    def addressed(self, request: Request) -> Request:
        """A request that names the model: the settings', else the preset's, else the upstream's own name."""
        return request.replace(model=self.config.model or request.model or self.name)

    async def ask(self, request: Request, listener: Listener) -> Reply:
        """Send a request; a stream that breaks after some text gives what there is.

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
            outcome = (await asyncio.gather(work, return_exceptions=True))[0]
        if isinstance(outcome, Reply):
            return outcome
        said = collected.reply()
        if isinstance(outcome, asyncio.CancelledError):
            if not (said.text or said.reasoning):
                raise ClientDisconnectedError
            return collected.reply(interrupted=CANCELLED)
        if isinstance(outcome, ModelError) and (said.text or said.reasoning):
            return collected.reply(interrupted=str(outcome) or type(outcome).__name__)
        if isinstance(outcome, ModelError) and collected.started:
            # The client has seen half a call: asking again would give it another half.
            raise as_service_error(outcome)
        raise outcome

    async def _work(self, request: Request, listener: Listener, collected: Accumulator) -> Reply:
        async with self._borrowed() as model:
            patient = with_timeout(model, self.config.timeout)
            retried = with_retries(
                patient, retries=self.config.max_retries, backoff=self._backoff, max_wait=RETRY_CAP_SECONDS
            )
            # Outside the retries: a request counts once, however often it was sent.
            asked = GuardedModel(retried, self.breaker, self.name)
            if not listener.streaming:
                return await asked.send(request)
            async with aclosing(asked.stream(request)) as pieces:
                async for piece in pieces:
                    added = collected.add(piece)
                    if added.spoken:  # until something is said, a failure has a status of its own
                        await listener.piece(added)
            return collected.reply()

    @asynccontextmanager
    async def _borrowed(self) -> AsyncGenerator[Model]:
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


class Upstreams:
    """All model servers by name."""

    def __init__(self, config: ServerConfig, *, models: Mapping[str, Model] | None = None) -> None:
        self._default = config.default_upstream
        given = models or {}
        self._telemetry = OpenTelemetryInstrumenter() if config.telemetry else None
        self._upstreams = {
            name: Upstream(name, each, self._watched(given.get(name) or _first_model(name, each)))
            for name, each in config.upstreams.items()
            if not each.route
        }
        self._routes = {name: each.route for name, each in config.upstreams.items() if each.route}
        for name, route in self._routes.items():
            if unknown := [each.upstream for each in route if each.upstream not in self._upstreams]:
                message = f"the setting 'upstreams.{name}.route' of the server: there is no upstream {unknown[0]!r}"
                raise ConfigError(message, code="NO_UPSTREAM")

    def _watched(self, model: Model) -> Model:
        return model if self._telemetry is None else self._telemetry.model(model)

    def span(self, name: str) -> AbstractContextManager[object]:
        """What the requests of a turn with a character belong to in traces; nothing unless telemetry is on."""
        return nullcontext() if self._telemetry is None else self._telemetry.run(name)

    def names(self) -> list[str]:
        """Names of the upstreams, the default one first."""
        return sorted(self._upstreams, key=lambda name: name != self._default)

    def route(self, name: str | None, dialect: str | None, key: str) -> list[tuple[Upstream, frozenset[str]]]:
        """The upstreams to ask, in order, each with the failures of those before after which it is asked.

        Args:
            name: The name that a client gives, if it does.
            dialect: The dialect that it asks for, if it does.
            key: What shall always get the same one: a provider's cache knows its session.
        """
        routes = self._routes.get(name if name is not None else self._default)
        if routes is None or dialect is not None:
            return [(self.get(name, dialect), frozenset())]
        weighted = [each for each in routes if each.weight > 0] or list(routes[:1])
        first = max(weighted, key=lambda each: _lot(key, each.upstream) ** (1 / max(each.weight, 1e-9)))
        others = [each for each in routes if each is not first]
        return [(self._upstreams[each.upstream], frozenset(each.on)) for each in (first, *others)]

    def find(self, name: str | None = None, dialect: str | None = None) -> Upstream | None:
        """The upstream that :meth:`get` gives; None if none speaks the dialect."""
        try:
            return self.get(name, dialect)
        except ServiceError as error:
            if error.code != DIALECT_NOT_AVAILABLE:
                raise
            return None

    def get(self, name: str | None = None, dialect: str | None = None) -> Upstream:
        """An upstream by name, else the default one, else the first that speaks the dialect."""
        named = name if name is not None else self._default
        if named in self._routes and (name is not None or dialect is None):
            return self._upstreams[self._routes[named][0].upstream]
        if name is not None:
            if name not in self._upstreams:
                raise ServiceError(400, f"there is no upstream {name!r}", code="upstream_not_found", param="upstream")
            return self._upstreams[name]
        chosen = self._upstreams.get(self._default)
        if chosen is not None and dialect in (None, chosen.model.dialect):
            return chosen
        for upstream in self._upstreams.values():
            if upstream.model.dialect == dialect:
                return upstream
        raise ServiceError(
            400, f"no upstream speaks the dialect {dialect!r}; POST /api/build shows it", code=DIALECT_NOT_AVAILABLE
        )

    def speaks(self, dialect: str) -> bool:
        """Whether some upstream has this dialect."""
        return any(each.model.dialect == dialect for each in self._upstreams.values())

    def offering(self, kind: Literal["embedding", "moderation"], name: str | None = None) -> Upstream:
        """The upstream for embeddings or moderations: the one named, the first that has a model for it, the default.

        Args:
            kind: What is asked for.
            name: The name of an upstream.
        """
        candidates = [self.get(each) for each in ([name] if name is not None else self.names())]
        fitting = [each for each in candidates if each.config.dialect in ("openai", "text")]
        if not fitting:
            raise ServiceError(400, f"no upstream has {kind}s", code="endpoint_not_available")
        having = (each for each in fitting if getattr(each.config, f"{kind}_model") is not None)
        return next(having, fitting[0])

    def known_fields(self) -> set[str]:
        """Options that some upstream says it takes."""
        return {name for each in self._upstreams.values() for name in each.config.fields or ()}

    async def replace_key(self, name: str, api_key: str | None) -> None:
        """Let an upstream use another key from now on, or that of the settings."""
        upstream = self.get(name)
        await upstream.replace_model(self._watched(make_model(upstream.config, api_key=api_key)), api_key)

    async def aclose(self) -> None:
        """Close all connections."""
        for upstream in self._upstreams.values():
            await upstream.model.aclose()


def make_model(config: UpstreamConfig, *, api_key: str | None = None) -> Model:
    """Make the model of an upstream; requests name theirs."""
    if config.dialect == SCRIPTED:
        from tavernkit.server.example_model import ExampleModel

        return ExampleModel(latency=config.latency)
    own = config.api_key.get_secret_value() if config.api_key is not None else None
    kind = _MODELS[config.dialect]
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
    """Collect what models are not sent of what was asked for, while this lasts."""
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


def _tells(config: UpstreamConfig) -> bool:
    """Return True if a server may say how long its models' contexts are; OpenAI's own does not."""
    return config.dialect in ("openai", "text") and config.base_url is not None and OPENAI_HOST not in config.base_url


def _first_model(name: str, config: UpstreamConfig) -> Model:
    try:
        return make_model(config)
    except ConfigError as error:
        raise ConfigError(f"the setting 'upstreams.{name}' of the server: {error}", code=error.code) from error


def as_service_error(error: Exception) -> ServiceError:
    """What a client is told when its upstream failed."""
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


def _lot(key: str, name: str) -> float:
    """A number between 0 and 1 that a session always draws for an upstream."""
    drawn = int.from_bytes(hashlib.sha256(f"{key}\0{name}".encode()).digest()[:8], "big")
    return (drawn + 1) / (2**64 + 1)


def kind_of_failure(error: Exception) -> str | None:
    """Which condition of a route an error fulfils; None if another upstream would fail the same way."""
    if isinstance(error, ServiceError):
        return "error" if error.code == "upstream_unavailable" else None
    if isinstance(error, RequestTimeoutError):
        return "timeout"
    if not isinstance(error, HTTPError):
        return "error" if isinstance(error, ModelError) else None
    if error.status == 429:
        return "rate_limit"
    said = str(error).lower()
    if error.status in (400, 413, 422):
        too_long = "context" in said or "too long" in said or ("maximum" in said and "token" in said)
        return "context_length" if too_long else None
    return "error"


def failure_reason(error: ModelError) -> str:
    """A word for what went wrong, for counting."""
    if isinstance(error, HTTPError):
        return str(error.status)
    if isinstance(error, RequestTimeoutError):
        return "timeout"
    return "connection" if isinstance(error, ConnectionFailedError) else "no_reply"


def _is_outage(error: ModelError) -> bool:
    """Return True if an error is the upstream's fault, not that of the request."""
    return not isinstance(error, HTTPError) or error.status >= 500
