"""Named model servers: retries, time limits, circuit breaking."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Protocol

from tavernkit.errors import ConfigError
from tavernkit.server.circuit_breaker import CircuitBreaker
from tavernkit.server.config import SCRIPTED, ServerConfig, UpstreamConfig
from tavernkit.server.errors import ServiceError
from tavernkit.server.limits import RETRY_BASE_SECONDS, RETRY_CAP_SECONDS
from tavernkit.values import Json, JsonObject, is_list, is_object
from tavernkit.vibe_tavern import (
    ChatChunk,
    ConnectionFailedError,
    Endpoint,
    HTTPError,
    OpenTelemetryInstrumenter,
    RequestTimeoutError,
    ToolCalls,
    Transport,
    TransportError,
    create_transport,
)

RETRIED_STATUSES = frozenset((408, 409, 429, 500, 502, 503, 504, 529))
CANCELLED = "client_disconnected"


@dataclass(slots=True)
class Reply:
    """What a model said; ``broken`` tells why it did not get to its end."""

    text: str = ""
    reasoning: str = ""
    refusal: str = ""
    tool_calls: tuple[JsonObject, ...] = ()
    finish_reason: str | None = None
    usage: JsonObject | None = None
    broken: str | None = None


@dataclass(frozen=True, slots=True)
class Speaks:
    """Who speaks from here on; ``lead`` is what stands before their words in one text of all speakers."""

    speaker: str
    lead: str


class Listener(Protocol):
    """Whoever waits for a reply."""

    @property
    def streaming(self) -> bool:
        """Whether pieces are wanted."""
        ...

    @property
    def gone(self) -> asyncio.Event:
        """Set when nobody listens any more."""
        ...

    async def piece(self, chunk: ChatChunk | Speaks) -> None:
        """Take a piece; may wait for a slow client."""
        ...


class NobodyListensError(Exception):
    """The client left before the model said anything."""


class Upstream:
    """One model server."""

    def __init__(
        self,
        name: str,
        config: UpstreamConfig,
        transport: Transport,
        *,
        breaker: CircuitBreaker | None = None,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.name = name
        self.config = config
        self.transport = transport
        self.breaker = breaker or CircuitBreaker()
        self._jitter = jitter
        self._users: Counter[int] = Counter()

    async def replace_transport(self, transport: Transport) -> None:
        """Use another transport from now on; the old one is closed when the last of its requests has ended."""
        old, self.transport = self.transport, transport
        if not self._users[id(old)]:
            await old.aclose()

    async def ask(self, request: JsonObject, listener: Listener) -> Reply:
        """Send a request; a stream that breaks after some text gives what there is, marked as broken.

        Failures before any text are retried, then raised. When the listener leaves, the request is cancelled.
        """
        attempt = 0
        while True:
            left = self.breaker.wait()
            if left > 0:
                raise ServiceError(
                    503, f"the upstream {self.name!r} failed repeatedly", code="upstream_unavailable", retry_after=left
                )
            try:
                reply = await self._listened(request, listener)
            except (NobodyListensError, asyncio.CancelledError):
                self.breaker.release()
                raise
            except ServiceError:
                self.breaker.record(ok=False)
                raise
            except TransportError as error:
                self.breaker.record(ok=not _is_outage(error))
                delay = self._delay(error, attempt)
                if delay is None:
                    raise
            except Exception:
                self.breaker.release()  # our own mistake tells nothing about the upstream
                raise
            else:
                self.breaker.record(ok=reply.broken in (None, CANCELLED))
                return reply
            attempt += 1
            if await _happens_within(listener.gone, delay):
                raise NobodyListensError

    def _delay(self, error: TransportError, attempt: int) -> float | None:
        if attempt >= self.config.max_retries or not _may_retry(error):
            return None
        backoff = min(RETRY_BASE_SECONDS * 2**attempt, RETRY_CAP_SECONDS) * (0.5 + self._jitter() / 2)
        asked = _retry_after(error)
        return backoff if asked is None else min(max(asked, backoff), RETRY_CAP_SECONDS)

    async def _listened(self, request: JsonObject, listener: Listener) -> Reply:
        """Run a request until it ends or nobody listens."""
        reply, calls = Reply(), ToolCalls()
        work = asyncio.create_task(self._work(request, listener, reply, calls))
        gone = asyncio.create_task(listener.gone.wait())
        try:
            await asyncio.wait((work, gone), return_when=asyncio.FIRST_COMPLETED)
        finally:
            gone.cancel()
            if not work.done():
                work.cancel()
            outcome = (await asyncio.gather(work, return_exceptions=True))[0]
        if outcome is None:
            reply.tool_calls = (*reply.tool_calls, *calls.assembled())
            return reply
        said = reply.text or reply.reasoning
        if isinstance(outcome, asyncio.CancelledError):
            if not said:
                raise NobodyListensError
            reply.broken = CANCELLED
            return reply
        if isinstance(outcome, TransportError) and said:
            reply.broken = str(outcome) or type(outcome).__name__
            return reply
        if isinstance(outcome, TransportError) and calls:
            # The client has seen half a call: asking again would give it another half.
            raise as_service_error(outcome)
        raise outcome

    @asynccontextmanager
    async def _borrowed(self) -> AsyncGenerator[Transport]:
        transport = self.transport
        self._users[id(transport)] += 1
        try:
            yield transport
        finally:
            self._users[id(transport)] -= 1
            if not self._users[id(transport)]:
                del self._users[id(transport)]
                if transport is not self.transport:
                    await transport.aclose()

    async def _work(self, request: JsonObject, listener: Listener, reply: Reply, calls: ToolCalls) -> None:
        try:
            async with asyncio.timeout(self.config.timeout) as patience, self._borrowed() as transport:
                if listener.streaming:
                    await self._stream(transport, request, listener, reply, calls, patience)
                else:
                    _read_body((await transport.complete(request)).body, reply)
        except TimeoutError as error:
            if isinstance(error, TransportError):
                raise
            raise RequestTimeoutError(f"the upstream {self.name!r} did not answer in time") from error

    async def _stream(
        self,
        transport: Transport,
        request: JsonObject,
        listener: Listener,
        reply: Reply,
        calls: ToolCalls,
        patience: asyncio.Timeout,
    ) -> None:
        streamed: JsonObject = {**request, "stream": True, "stream_options": {"include_usage": True}}
        loop = asyncio.get_running_loop()
        async with transport.stream(streamed) as chunks:
            async for chunk in chunks:
                reply.text += chunk.text
                reply.reasoning += chunk.reasoning
                reply.refusal += chunk.refusal
                reply.finish_reason = chunk.finish_reason or reply.finish_reason
                reply.usage = chunk.usage or reply.usage
                placed = tuple(calls.add(delta) for delta in chunk.tool_calls)
                await listener.piece(replace(chunk, tool_calls=placed) if placed else chunk)
                patience.reschedule(loop.time() + self.config.timeout)


class Upstreams:
    """All model servers by name."""

    def __init__(self, config: ServerConfig, *, transports: Mapping[str, Transport] | None = None) -> None:
        self._default = config.default_upstream
        given = transports or {}
        self._telemetry = OpenTelemetryInstrumenter() if config.telemetry else None
        self._upstreams = {
            name: Upstream(name, each, self._watched(given.get(name) or _first_transport(name, each)))
            for name, each in config.upstreams.items()
        }

    def _watched(self, transport: Transport) -> Transport:
        return transport if self._telemetry is None else self._telemetry.transport(transport)

    def span(self, name: str) -> AbstractContextManager[object]:
        """What the requests of a turn with a character belong to in traces; nothing unless telemetry is on."""
        return nullcontext() if self._telemetry is None else self._telemetry.run(name)

    def names(self) -> list[str]:
        """Names of the upstreams, the default one first."""
        return sorted(self._upstreams, key=lambda name: name != self._default)

    def get(self, name: str | None = None, dialect: str | None = None) -> Upstream:
        """An upstream by name, else the default one, else the first that speaks the dialect."""
        if name is not None:
            if name not in self._upstreams:
                raise ServiceError(400, f"there is no upstream {name!r}", code="upstream_not_found", param="upstream")
            return self._upstreams[name]
        chosen = self._upstreams[self._default]
        if dialect is None or chosen.transport.dialect == dialect:
            return chosen
        for upstream in self._upstreams.values():
            if upstream.transport.dialect == dialect:
                return upstream
        raise ServiceError(
            400, f"no upstream speaks the dialect {dialect!r}; POST /api/build shows it", code="dialect_not_available"
        )

    async def replace_key(self, name: str, api_key: str | None) -> None:
        """Let an upstream use another key from now on, or that of the settings."""
        upstream = self.get(name)
        await upstream.replace_transport(self._watched(make_transport(upstream.config, api_key=api_key)))

    async def aclose(self) -> None:
        """Close all connections."""
        for upstream in self._upstreams.values():
            await upstream.transport.aclose()


def make_transport(config: UpstreamConfig, *, api_key: str | None = None) -> Transport:
    """Make the transport of an upstream. Retries are ours, so the SDK's are off."""
    if config.dialect == SCRIPTED:
        from tavernkit.server.example_model import ExampleModel

        return ExampleModel(latency=config.latency)
    own = config.api_key.get_secret_value() if config.api_key is not None else None
    fields: dict[str, object] = {"api_key": api_key or own, "timeout": config.timeout, "max_retries": 0}
    if config.base_url is not None:
        fields["base_url"] = config.base_url
    if config.dialect == "openai":
        fields["api_prefix"] = config.api_prefix
    return create_transport(config.dialect, Endpoint(**fields))  # pyright: ignore[reportArgumentType]  # checked by Endpoint


def _first_transport(name: str, config: UpstreamConfig) -> Transport:
    try:
        return make_transport(config)
    except ConfigError as error:
        raise ConfigError(f"the setting 'upstreams.{name}' of the server: {error}", code=error.code) from error


def as_service_error(error: Exception) -> ServiceError:
    """What a client is told when its upstream failed."""
    if isinstance(error, ServiceError):
        return error
    if isinstance(error, HTTPError):
        if error.status == 429:
            return ServiceError(
                429, f"the model's server: {error}", code="upstream_rate_limited", retry_after=_retry_after(error)
            )
        status = 400 if error.status in (400, 413, 422) else 502
        return ServiceError(status, f"the model's server: {error}", code="upstream_error")
    if isinstance(error, RequestTimeoutError):
        return ServiceError(504, str(error), code="upstream_timeout")
    return ServiceError(502, f"the model's server failed: {error}", code="upstream_error")


def _read_body(body: JsonObject, reply: Reply) -> None:
    choices = body.get("choices")
    choice = choices[0] if is_list(choices) and choices and is_object(choices[0]) else {}
    message = choice.get("message")
    if not is_object(message):
        message = {"content": choice.get("text")}
    reply.text = _content(message.get("content"))
    reply.reasoning = _content(message.get("reasoning_content") or message.get("reasoning"))
    reply.refusal = _content(message.get("refusal"))
    calls = message.get("tool_calls")
    reply.tool_calls = tuple(call for call in calls if is_object(call)) if is_list(calls) else ()
    reason, usage = choice.get("finish_reason"), body.get("usage")
    reply.finish_reason = reason if isinstance(reason, str) else None
    reply.usage = usage if is_object(usage) else None


def _content(value: Json) -> str:
    if isinstance(value, str):
        return value
    if is_list(value):
        return "".join(_content(part.get("text")) for part in value if is_object(part))
    return ""


def _is_outage(error: TransportError) -> bool:
    """Whether an error speaks of the upstream, not of the request."""
    return not isinstance(error, HTTPError) or error.status >= 500


def _may_retry(error: TransportError) -> bool:
    if isinstance(error, HTTPError):
        return error.status in RETRIED_STATUSES
    return isinstance(error, (ConnectionFailedError, RequestTimeoutError))


def _retry_after(error: TransportError) -> float | None:
    if not isinstance(error, HTTPError):
        return None
    text = next((value for name, value in error.headers.items() if name.lower() == "retry-after"), None)
    try:
        return max(float(text), 0.0) if text is not None else None
    except ValueError:
        return None


async def _happens_within(event: asyncio.Event, seconds: float) -> bool:
    try:
        await asyncio.wait_for(event.wait(), seconds)
    except TimeoutError:
        return False
    return True
