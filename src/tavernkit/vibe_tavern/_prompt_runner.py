"""Builds one request, sends it, and reads the reply."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager

from tavernkit._arguments import require
from tavernkit._dataclass import dataclass
from tavernkit._values import FrozenObject, JsonObject, deep_merge, is_list, is_object, thaw, thaw_object
from tavernkit.dialects._messages import MessageLike, as_messages
from tavernkit.errors import ConfigError, log_warning
from tavernkit.models import Accumulator, Model, Reply, ReplyPiece, Request
from tavernkit.models._bodies import written_messages
from tavernkit.models._readers import content_text, first_choice
from tavernkit.prompt._block import Message
from tavernkit.prompt._plan import Plan
from tavernkit.stores._history import HistoryLike
from tavernkit.stores._variables import VariablesStore
from tavernkit.vibe_tavern._capabilities import Capabilities, response_format_kind, validate_request
from tavernkit.vibe_tavern._context import VibeTavernContext, history_messages
from tavernkit.vibe_tavern._options import is_blank, section
from tavernkit.vibe_tavern._pipeline import Builder
from tavernkit.vibe_tavern._runner_config import RunnerConfig

PARALLEL = "parallel_tool_calls"


def normalize_options(options: Mapping[str, object]) -> JsonObject:
    """Set ``parallel_tool_calls``: structured output forces false, tools default to false."""
    normal = thaw_object(options)
    structured = response_format_kind(normal.get("response_format")) is not None
    with_tools = "tools" in normal or "tool_choice" in normal  # also an empty list, or a choice without tools
    if structured or (with_tools and PARALLEL not in normal):
        normal[PARALLEL] = False
    # Null is refused too, unless structured output has replaced it.
    if PARALLEL in normal and not isinstance(normal[PARALLEL], bool):
        raise ConfigError(
            f"parallel_tool_calls must be true or false, not {normal[PARALLEL]!r}",
            code="PARALLEL_TOOL_CALLS_NOT_BOOLEAN",
        )
    return normal


def filter_request(request: Mapping[str, object], capabilities: Capabilities) -> JsonObject:
    """Remove ``parallel_tool_calls`` for providers that do not support it; the options keep it."""
    filtered = thaw_object(request)
    if not capabilities.supports_parallel_tool_calls:
        filtered.pop(PARALLEL, None)
    return filtered


NATIVE_DIALECTS = frozenset(("anthropic", "google"))
"""Protocols for which the model converts messages itself, so requests keep all data."""


@dataclass(frozen=True, kw_only=True)
class PromptRequest:
    """A request that is ready to be sent, with everything it was made from.

    ``options`` are those of the caller; ``request`` is the body in OpenAI's shape, with only what the provider accepts.
    ``plan`` is None if the prompt was given as a ``Request``.
    """

    plan: Plan | None
    config: RunnerConfig
    """The configuration of the run."""
    context: VibeTavernContext
    """The context that the prompt was built from."""
    dialect: str
    """The provider's protocol."""
    messages: list[JsonObject]
    """The messages as they are sent."""
    options: JsonObject
    request: JsonObject
    strict: bool = False
    """True if warnings are errors."""
    response_transforms: Sequence[str] = ()
    """Names of the transforms applied to the reply."""

    @property
    def capabilities(self) -> Capabilities:
        """What the provider and model support."""
        return self.config.capabilities

    def to_request(self) -> Request:
        """Return what is sent to the model."""
        return Request.from_body(self.request, dialect=self.dialect)


@dataclass(frozen=True, kw_only=True)
class PromptResult:
    """A reply: the assistant message after response transforms, and the original reply."""

    prompt_request: PromptRequest
    """What was sent."""
    reply: Reply
    """The original reply."""
    assistant_message: JsonObject
    """The message after response transforms, in OpenAI's shape."""
    elapsed_ms: int
    """Milliseconds from request to reply."""

    @property
    def text(self) -> str:
        """What the assistant says."""
        return content_text(self.assistant_message.get("content"))

    @property
    def finish_reason(self) -> str | None:
        """Why the reply ended; the provider's own word if it speaks OpenAI's protocol."""
        reason = first_choice(self.reply.raw).get("finish_reason")
        if isinstance(reason, str):
            return reason
        return None if self.reply.finish_reason == "unknown" else self.reply.finish_reason

    @property
    def usage(self) -> JsonObject | None:
        """Token counts in OpenAI's shape, with everything the provider reports."""
        return self.reply.usage_object()

    @property
    def logprobs(self) -> FrozenObject | None:
        """Log probabilities, if requested."""
        return self.reply.logprobs

    @property
    def reasoning(self) -> str:
        """What a reasoning model thought, if the provider returns it."""
        return self.reply.reasoning

    @property
    def refusal(self) -> str:
        """Why the model refused, if it did."""
        return self.reply.refusal


class PromptStream:
    """A running stream: iterate over its pieces; ``result`` is available when it has ended."""

    def __init__(self, request: PromptRequest, pieces: AsyncGenerator[ReplyPiece], clock: Callable[[], float]) -> None:
        self._request = request
        self._pieces = pieces
        self._clock = clock
        self._started = clock()
        self._collected = Accumulator()
        self._result: PromptResult | None = None

    async def __aiter__(self) -> AsyncGenerator[ReplyPiece]:
        async for piece in self._pieces:
            yield self._collected.add(piece)
        if self._result is None:  # what is left may be read in several loops, and the end be reached twice
            taken = elapsed_ms(self._started, self._clock)
            self._result = _result(self._request, self._collected.reply(), taken)

    @property
    def result(self) -> PromptResult:
        """The whole reply."""
        if self._result is None:
            raise ConfigError("the stream has not ended: iterate over it first", code="STREAM_NOT_ENDED")
        return self._result


class PromptRunner:
    """Sends requests to a model; has no configuration."""

    def __init__(self, model: Model, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Make a runner.

        Args:
            model: The model; requests name the model of their configuration.
            clock: Measures how long requests take.
        """
        require("model", model, Model, "a model such as tk.model('openai:gpt-4o')")
        self.model = model
        self._clock = clock

    def build_request(
        self,
        config: RunnerConfig,
        prompt: Plan | Request | None = None,
        *,
        history: HistoryLike = None,
        message: str = "",
        system: str | None = None,
        variables: VariablesStore | None = None,
        strict: bool = False,
        llm_options: Mapping[str, object] | None = None,
        dialect: str | None = None,
        message_transforms: Sequence[str] = (),
        response_transforms: Sequence[str] = (),
    ) -> PromptRequest:
        """Build and check a request: the prompt, and the options merged over the configured ones.

        Args:
            config: Provider, model and options.
            prompt: A finished prompt. System text, history and message are added after it; without a prompt, the
                configuration's pipeline builds one from them.
            history: The chat so far.
            message: What the user says.
            system: A system message of this request.
            variables: The chat's variables, for templates.
            strict: Raise instead of warning.
            llm_options: Options that override those of the prompt, which override the configured ones.
            dialect: The format of messages; by default that of the model's protocol.
            message_transforms: Names of transforms for the messages.
            response_transforms: Names of transforms for the reply.

        Raises:
            PreflightError: The provider would refuse the request.
            ConfigError: An option or a name is wrong.
        """
        require("config", config, RunnerConfig)
        require("prompt", prompt, Plan | Request | None, "a Plan or a Request (the user's text goes into message=)")
        require("message", message, str)
        require("system", system, str | None)
        require("dialect", dialect, str | None)
        require("message_transforms", message_transforms, Sequence[str])
        require("response_transforms", response_transforms, Sequence[str])
        strict = strict or config.context.strict
        given = _own_options(llm_options)
        base = _as_request(prompt)
        defaults = thaw_object(config.llm_options_defaults)
        merged = deep_merge(defaults if base is None else deep_merge(defaults, _request_options(base)), given)
        options = normalize_options(merged)
        written = dialect or self.model.dialect
        # A given prompt keeps its own variables.
        store = None if base is not None else config.context.variables if variables is None else variables
        context = config.context.replace(
            history=history,
            message=message,
            system_text=system or "",
            llm_options=options,
            default_model_hint=config.context.default_model_hint or config.model,
            strict=strict,
            variables=store,
            dialect=written,
        )
        plan = prompt if isinstance(prompt, Plan) else None
        if base is None:
            plan = Builder(config.pipeline).run(context)
            spoken: Sequence[MessageLike] = plan.messages
        else:
            spoken = [*(base.messages or ()), *_added_messages(system, history, message)]
        messages = _messages(spoken, written)
        request = filter_request({"model": config.model, "messages": messages, **options}, config.capabilities)
        validate_request(
            config.capabilities, tools=bool(options.get("tools")), response_format=options.get("response_format")
        )
        sent = request["messages"]
        assert is_list(sent)
        messages = [each for each in sent if is_object(each)]
        registry = config.infrastructure.message_transforms
        for transform in registry.resolve(message_transforms, strict=strict, warn=context.warn):
            transform(messages)
        request["messages"] = [*messages]
        return PromptRequest(
            plan=plan,
            config=config,
            context=context,
            dialect=written,
            messages=messages,
            options=options,
            request=request,
            strict=strict,
            response_transforms=tuple(response_transforms),
        )

    async def perform(self, request: PromptRequest) -> PromptResult:
        """Send a request and read the reply.

        Raises:
            ConfigError: The request asks for a stream.
        """
        self._check_dialect(request)
        if request.request.get("stream"):
            raise ConfigError("perform does not stream: use perform_stream", code="STREAM_IN_LLM_OPTIONS")
        started = self._clock()
        reply = await self.model.send(request.to_request())
        return _result(request, reply, elapsed_ms(started, self._clock))

    @asynccontextmanager
    async def stream(self, request: PromptRequest, *, include_usage: bool = True) -> AsyncGenerator[PromptStream]:
        """Send a chat-only request and iterate over the reply as it arrives; leaving the context cancels the request.

        >>> async with runner.stream(request) as stream:     # doctest: +SKIP
        ...     async for piece in stream:
        ...         print(piece.text, end="")
        >>> stream.result.text                               # doctest: +SKIP

        Args:
            request: The request.
            include_usage: Also request token counts.
        """
        self._check_dialect(request)
        options = request.options
        validate_request(
            request.capabilities,
            stream=True,
            tools=bool(options.get("tools") or options.get("tool_choice")),
            response_format=options.get("response_format"),
        )
        sent = request.to_request()
        wanted = {"include_usage": True} if include_usage else None
        sent = sent.replace(options={**sent.options, "stream_options": wanted})
        async with aclosing(self.model.stream(sent)) as pieces:
            yield PromptStream(request, pieces, self._clock)

    async def perform_stream(
        self,
        request: PromptRequest,
        *,
        include_usage: bool = True,
        on_delta: Callable[[str], object] | None = None,
    ) -> PromptResult:
        """Send a chat-only request, call ``on_delta`` with each piece of text, and return the whole reply.

        Args:
            request: The request.
            include_usage: Also request token counts.
            on_delta: Called with each piece of text.
        """
        async with self.stream(request, include_usage=include_usage) as stream:
            async for piece in stream:
                if piece.text and on_delta is not None:
                    on_delta(piece.text)
        return stream.result

    async def aclose(self) -> None:
        """Close the model."""
        await self.model.aclose()

    def _check_dialect(self, request: PromptRequest) -> None:
        require("request", request, PromptRequest, "a PromptRequest made by build_request()")
        if request.dialect in NATIVE_DIALECTS and self.model.dialect != request.dialect:
            raise ConfigError(
                f"the request is written for {request.dialect!r} and the model speaks {self.model.dialect!r}",
                code="MODEL_SPEAKS_ANOTHER_DIALECT",
            )


def _result(request: PromptRequest, reply: Reply, taken: int) -> PromptResult:
    # The prompt's variable changes are applied now that the reply has arrived.
    if request.context.variables is not None and request.plan is not None:
        request.plan.variables.apply(request.context.variables)
    message = _assistant_message(reply)
    registry = request.config.infrastructure.response_transforms
    warn = request.context.warn
    for transform in registry.resolve(request.response_transforms, strict=request.strict, warn=warn):
        transform(message, request.config.output_tags)
    return PromptResult(prompt_request=request, reply=reply, assistant_message=message, elapsed_ms=taken)


def _assistant_message(reply: Reply) -> JsonObject:
    """Return the original message if the provider speaks OpenAI's protocol, so that transforms can repair it."""
    message = first_choice(reply.raw).get("message")
    return thaw_object(message) if is_object(message) else reply.to_dict()


def elapsed_ms(started: float, clock: Callable[[], float]) -> int:
    """Whole milliseconds since a moment of the same clock."""
    return max(round((clock() - started) * 1000), 0)


def _own_options(llm_options: Mapping[str, object] | None) -> dict[str, object]:
    given = section(llm_options, "llm_options")
    for key in ("stream", "stream_options"):
        if key in given:
            raise ConfigError(f"llm_options cannot set {key}: use perform_stream", code="STREAM_IN_LLM_OPTIONS")
    return {key: value for key, value in given.items() if key not in ("model", "messages")}


def _as_request(prompt: Plan | Request | None) -> Request | None:
    if not isinstance(prompt, Plan):
        if prompt is not None and prompt.messages is None:
            raise ConfigError("a run needs a chat: this request is for text completion", code="PROMPT_FOR_CHAT_MODEL")
        return prompt
    return prompt.request()


def _request_options(request: Request) -> JsonObject:
    options = thaw_object(request.options)
    if request.stop:
        options["stop"] = [*request.stop]
    if request.tools:
        options["tools"] = [thaw_object(tool) for tool in request.tools]
        if request.tool_choice is not None:
            options["tool_choice"] = thaw(request.tool_choice)
    if request.response_format is not None:
        options["response_format"] = thaw_object(request.response_format)
    return options


def _added_messages(system: str | None, history: HistoryLike, message: str) -> list[Message]:
    """Return what is added after a given prompt."""
    added = [] if system is None or is_blank(system) else [Message("system", system)]
    added += history_messages(history)
    return added if is_blank(message) else [*added, Message("user", message)]


def _messages(messages: Sequence[MessageLike], dialect: str) -> list[JsonObject]:
    """Convert the messages of a request. For native protocols they keep all data."""
    if dialect in NATIVE_DIALECTS:
        return [_full_message(message) for message in as_messages(messages)]
    written = written_messages(messages, dialect, log_warning)
    if not is_list(written) or not all(is_object(message) for message in written):
        raise ConfigError(
            f"dialect {dialect!r} does not give a list of messages; use openai, or a model of Anthropic's or Google's",
            code="DIALECT_NOT_A_MESSAGE_LIST",
        )
    return [message for message in written if is_object(message)]


def _full_message(message: Message) -> JsonObject:
    full: JsonObject = {**message.to_dict(), **thaw_object(message.metadata or {})}
    if message.attachments:
        full["attachments"] = [thaw(attachment) for attachment in message.attachments]
    return full
