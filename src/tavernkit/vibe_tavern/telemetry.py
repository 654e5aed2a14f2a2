"""OpenTelemetry spans for requests and tools, named by the GenAI conventions (extra ``otel``)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Generator
from contextlib import aclosing, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Final

from tavernkit.arguments import checked, require
from tavernkit.errors import ConfigError
from tavernkit.values import Json, JsonObject, is_list, is_object
from tavernkit.vibe_tavern import events
from tavernkit.vibe_tavern.transports import chat_body
from tavernkit.vibe_tavern.transports.base import ChatChunk, ChatResponse, Transport

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer, TracerProvider

SCOPE: Final = "tavernkit.vibe_tavern"

_PROVIDERS: Final = {"google": "gcp.gemini", "azure": "azure.ai.openai"}
_REQUEST_ATTRIBUTES: Final = {
    "model": "gen_ai.request.model",
    "temperature": "gen_ai.request.temperature",
    "top_p": "gen_ai.request.top_p",
    "top_k": "gen_ai.request.top_k",
    "max_tokens": "gen_ai.request.max_tokens",
    "max_completion_tokens": "gen_ai.request.max_tokens",
    "frequency_penalty": "gen_ai.request.frequency_penalty",
    "presence_penalty": "gen_ai.request.presence_penalty",
    "seed": "gen_ai.request.seed",
    "n": "gen_ai.request.choice.count",
}


class OpenTelemetryInstrumenter:
    """Makes spans: around every request of a transport, every tool call of a loop, and a run as a whole.

    No prompt and no answer goes into a span, only names, settings, counts and reasons.

    It goes around a transport and takes the events of a run::

        telemetry = OpenTelemetryInstrumenter()
        runner = PromptRunner(telemetry.transport(transport, provider="openai"))
        with telemetry.run("storyteller"):
            await loop.run("Hi", on_event=telemetry.on_event)
    """

    def __init__(self, *, tracer_provider: TracerProvider | None = None) -> None:
        try:
            from opentelemetry import trace
        except ModuleNotFoundError as error:
            raise ConfigError("spans need the extra: pip install 'tavernkit[otel]'", code="EXTRA_MISSING") from error
        require("tracer_provider", tracer_provider, trace.TracerProvider | None)
        self._tracer = trace.get_tracer(SCOPE, tracer_provider=tracer_provider)
        self._tools: dict[tuple[int, str], Span] = {}

    @checked
    def transport(self, transport: Transport, *, provider: str | None = None) -> InstrumentedTransport:
        """Wrap a transport so that each request is a span."""
        name = provider or transport.dialect
        return InstrumentedTransport(transport, self._tracer, _PROVIDERS.get(name, name))

    @contextmanager
    @checked
    def run(self, name: str = "tool_loop") -> Generator[Span]:
        """Make a span of a run: the requests and tools inside are its children."""
        attributes = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": name}
        with self._tracer.start_as_current_span(f"invoke_agent {name}", attributes=attributes) as span:
            try:
                yield span
            finally:
                for tool in self._tools.values():
                    _failed(tool, "cancelled")
                    tool.end()
                self._tools.clear()

    @checked
    def on_event(self, event: JsonObject) -> None:
        """Take an event of a tool loop: tool calls become spans."""
        key = (_number(event.get("turn")), str(event.get("tool_call_id")))
        if event.get("type") == events.TOOL_CALL_START:
            name = str(event.get("name"))
            attributes = {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": name,
                "gen_ai.tool.call.id": key[1],
                "gen_ai.tool.type": "function",
            }
            self._tools[key] = self._tracer.start_span(f"execute_tool {name}", attributes=attributes)
        elif event.get("type") == events.TOOL_CALL_END:
            span = self._tools.pop(key, None)
            if span is None:
                return
            if event.get("ok") is not True:
                codes = event.get("error_codes")
                _failed(span, str(codes[0]) if is_list(codes) and codes else "tool_error")
            span.end()


class InstrumentedTransport:
    """A transport whose requests are spans."""

    def __init__(self, inner: Transport, tracer: Tracer, provider: str) -> None:
        self._inner = inner
        self._tracer = tracer
        self._provider = provider

    @property
    def dialect(self) -> str:
        """The protocol of the transport inside."""
        return self._inner.dialect

    async def complete(self, request: JsonObject) -> ChatResponse:
        """Send a request inside a span."""
        with self._span(request) as span:
            response = await self._inner.complete(request)
            _set_response(span, response.body)
            return response

    @asynccontextmanager
    async def stream(self, request: JsonObject) -> AsyncGenerator[AsyncIterator[ChatChunk]]:
        """Send a request inside a span that lasts as long as the stream."""
        with self._span(request) as span:
            async with self._inner.stream(request) as chunks, aclosing(_watched(chunks, span)) as watched:
                yield watched

    async def aclose(self) -> None:
        """Close the transport inside."""
        await self._inner.aclose()

    @contextmanager
    def _span(self, request: JsonObject) -> Generator[Span]:
        from opentelemetry.trace import SpanKind

        attributes: dict[str, str | int | float | bool] = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": self._provider,
        }
        for key, name in _REQUEST_ATTRIBUTES.items():
            value = request.get(key)
            if isinstance(value, (str, int, float)):
                attributes[name] = value
        if is_object(request.get("response_format")):
            attributes["gen_ai.output.type"] = "json"
        with self._tracer.start_as_current_span(
            f"chat {request.get('model')}",
            kind=SpanKind.CLIENT,
            attributes=attributes,
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                yield span
            except BaseException as error:
                _failed(span, type(error).__name__)
                raise


async def _watched(chunks: AsyncIterator[ChatChunk], span: Span) -> AsyncGenerator[ChatChunk]:
    async for chunk in chunks:
        if chunk.finish_reason is not None:
            span.set_attribute("gen_ai.response.finish_reasons", [chunk.finish_reason])
        _set_usage(span, chunk.usage)
        yield chunk


def _set_response(span: Span, body: JsonObject) -> None:
    for key, name in (("model", "gen_ai.response.model"), ("id", "gen_ai.response.id")):
        value = body.get(key)
        if isinstance(value, str):
            span.set_attribute(name, value)
    reason = chat_body.finish_reason(body)
    if reason is not None:
        span.set_attribute("gen_ai.response.finish_reasons", [reason])
    _set_usage(span, chat_body.usage(body))


def _set_usage(span: Span, usage: JsonObject | None) -> None:
    for key, name in (
        ("prompt_tokens", "gen_ai.usage.input_tokens"),
        ("completion_tokens", "gen_ai.usage.output_tokens"),
    ):
        count = (usage or {}).get(key)
        if isinstance(count, int):
            span.set_attribute(name, count)


def _failed(span: Span, kind: str) -> None:
    from opentelemetry.trace import Status, StatusCode

    span.set_attribute("error.type", kind)
    span.set_status(Status(StatusCode.ERROR, kind))


def _number(value: Json) -> int:
    return value if isinstance(value, int) else 0
