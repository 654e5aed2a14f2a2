"""Events of a run, as they happen, and the OpenTelemetry spans that are made of them (extra ``otel``).

An event is a mapping with a ``type`` and the fields that the type has. Events contain sizes, names, codes and messages,
but no prompts, no answers (except ``final_stream_delta``) and no keys.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AbstractContextManager, aclosing, contextmanager
from typing import TYPE_CHECKING, Final, TypeAlias

from tavernkit._values import Json, JsonObject, is_list, thaw
from tavernkit.errors import ConfigError, Warn, log_warning
from tavernkit.models import Accumulator, Model, ModelWrapper, Reply, ReplyPiece, Request

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer, TracerProvider


EventHandler: TypeAlias = Callable[[JsonObject], object]
"""Called with each event; its errors are logged and do not affect the run."""

LLM_REQUEST_START = "llm_request_start"
LLM_REQUEST_ERROR = "llm_request_error"
LLM_REQUEST_RETRY = "llm_request_retry"
LLM_REQUEST_END = "llm_request_end"
TOOL_CALL_START = "tool_call_start"
TOOL_CALL_END = "tool_call_end"
FIX_EMPTY_FINAL = "fix_empty_final"
FINAL = "final"
FINAL_STREAM_START = "final_stream_start"
FINAL_STREAM_DELTA = "final_stream_delta"
FINAL_STREAM_END = "final_stream_end"
FINAL_STREAM_SKIPPED = "final_stream_skipped"
FINAL_STREAM_ERROR = "final_stream_error"


class EventEmitter:
    """Passes events to a handler, if there is one."""

    def __init__(self, handler: EventHandler | None, *, warn: Warn = log_warning) -> None:
        self._handler = handler
        self._warn = warn

    def __call__(self, kind: str, **fields: object) -> None:
        """Emit an event."""
        if self._handler is None:
            return
        event: JsonObject = {"type": kind}
        event.update({name: thaw(value) for name, value in fields.items()})
        try:
            self._handler(event)
        except Exception as error:  # noqa: BLE001  # a watcher must not disturb what it watches
            self._warn(f"an event handler failed on {kind}: {type(error).__name__}: {error}")


def error_fields(error: BaseException) -> dict[str, Json]:
    """The fields that describe an error: its class and message, and the code of a configuration error."""
    fields: dict[str, Json] = {"error_class": type(error).__name__, "message": str(error)}
    if isinstance(error, ConfigError):
        fields["code"] = error.code
    return fields


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
    """Makes spans: around every request to a model, every tool call of a loop, and a run as a whole.

    No prompt and no reply goes into a span, only names, settings, counts and reasons.

    It wraps a model and handles the events of a run::

        telemetry = OpenTelemetryInstrumenter()
        runner = PromptRunner(telemetry.model(model, provider="openai"))
        with telemetry.run("storyteller"):
            await loop.run("Hi", on_event=telemetry.on_event)

    Raises:
        ConfigError: The extra ``otel`` is not installed.
    """

    def __init__(self, *, tracer_provider: TracerProvider | None = None) -> None:
        try:
            from opentelemetry import trace
        except ModuleNotFoundError as error:
            raise ConfigError("spans need the extra: pip install 'tavernkit[otel]'", code="EXTRA_MISSING") from error
        self._tracer = trace.get_tracer(SCOPE, tracer_provider=tracer_provider)
        self._tools: dict[tuple[int, int, str], Span] = {}
        """The spans of running tools, by the span they are in, the turn and the id of the call."""

    def model(self, model: Model, *, provider: str | None = None) -> InstrumentedModel:
        """Wrap a model so that each request is a span.

        Args:
            model: The model.
            provider: The provider's name in spans; by default the model's protocol.
        """
        name = provider or model.dialect
        return InstrumentedModel(model, self._tracer, _PROVIDERS.get(name, name))

    @contextmanager
    def run(self, name: str = "tool_loop") -> Generator[Span]:
        """Open a span for a run: the requests and tools inside are its children."""
        attributes = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": name}
        with self._tracer.start_as_current_span(f"invoke_agent {name}", attributes=attributes) as span:
            try:
                yield span
            finally:
                run = span.get_span_context().span_id
                for key in [key for key in self._tools if key[0] == run]:
                    tool = self._tools.pop(key)
                    _record_failure(tool, "cancelled")
                    tool.end()

    def on_event(self, event: JsonObject) -> None:
        """Handle an event of a tool loop: tool calls become spans."""
        from opentelemetry.trace import get_current_span

        run = get_current_span().get_span_context().span_id  # the turns and ids of runs at the same time may be equal
        key = (run, _number(event.get("turn")), str(event.get("tool_call_id")))
        if event.get("type") == TOOL_CALL_START:
            name = str(event.get("name"))
            attributes = {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": name,
                "gen_ai.tool.call.id": key[2],
                "gen_ai.tool.type": "function",
            }
            self._tools[key] = self._tracer.start_span(f"execute_tool {name}", attributes=attributes)
        elif event.get("type") == TOOL_CALL_END:
            span = self._tools.pop(key, None)
            if span is None:
                return
            if event.get("ok") is not True:
                codes = event.get("error_codes")
                _record_failure(span, str(codes[0]) if is_list(codes) and codes else "tool_error")
            span.end()


class InstrumentedModel(ModelWrapper):
    """A model whose requests are spans."""

    def __init__(self, inner: Model, tracer: Tracer, provider: str) -> None:
        """Wrap a model."""
        super().__init__(inner)
        self._tracer = tracer
        self._provider = provider

    async def send_whole(self, request: Request) -> Reply:
        """Send a request inside a span."""
        with self._span(request) as span, _current(span):
            reply = await self.inner.send(request)
            _set_reply(span, reply)
            return reply

    async def stream(self, request: Request) -> AsyncGenerator[ReplyPiece]:
        """Send a request inside a span that lasts as long as the stream."""
        with self._span(request) as span:
            collected = Accumulator()
            async with aclosing(self.inner.stream(request)) as pieces:
                while True:
                    with _current(span):  # not between pieces, when the caller's code runs, perhaps in another task
                        piece = await anext(pieces, None)
                    if piece is None:
                        break
                    yield collected.add(piece)
            _set_reply(span, collected.reply())

    @contextmanager
    def _span(self, request: Request) -> Generator[Span]:
        from opentelemetry.trace import SpanKind

        attributes: dict[str, str | int | float | bool] = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": self._provider,
        }
        model = request.model or self.name
        for key, name in _REQUEST_ATTRIBUTES.items():
            value = model if key == "model" else request.options.get(key)
            if isinstance(value, (str, int, float)):
                attributes[name] = value
        if request.response_format is not None:
            attributes["gen_ai.output.type"] = "json"
        span = self._tracer.start_span(f"chat {model}", kind=SpanKind.CLIENT, attributes=attributes)
        try:
            yield span
        except BaseException as error:
            _record_failure(span, type(error).__name__)
            raise
        finally:
            span.end()


def _current(span: Span) -> AbstractContextManager[Span]:
    """Make a span the parent of others; failures are recorded where it ends."""
    from opentelemetry.trace import use_span

    return use_span(span, record_exception=False, set_status_on_exception=False)


def _set_reply(span: Span, reply: Reply) -> None:
    if reply.model:
        span.set_attribute("gen_ai.response.model", reply.model)
    identity = reply.raw.get("id")
    if isinstance(identity, str):
        span.set_attribute("gen_ai.response.id", identity)
    if reply.finish_reason != "unknown":
        span.set_attribute("gen_ai.response.finish_reasons", [reply.finish_reason])
    if reply.usage.reported:
        span.set_attribute("gen_ai.usage.input_tokens", reply.usage.input_tokens)
        span.set_attribute("gen_ai.usage.output_tokens", reply.usage.output_tokens)


def _record_failure(span: Span, kind: str) -> None:
    from opentelemetry.trace import Status, StatusCode

    span.set_attribute("error.type", kind)
    span.set_status(Status(StatusCode.ERROR, kind))


def _number(value: Json) -> int:
    return value if isinstance(value, int) else 0
