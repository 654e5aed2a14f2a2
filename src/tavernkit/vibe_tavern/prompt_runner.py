"""The single request boundary: builds one request, sends it, reads one answer."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from tavernkit.arguments import check_fields, checked, require
from tavernkit.errors import ConfigError
from tavernkit.prompt.message import Message
from tavernkit.prompt.plan import Plan
from tavernkit.stores.history import HistoryLike
from tavernkit.stores.variables import VariablesStore
from tavernkit.values import JsonObject, deep_merge, is_list, is_object, thaw, thaw_object
from tavernkit.vibe_tavern import preflight, request_policy
from tavernkit.vibe_tavern.capabilities import Capabilities
from tavernkit.vibe_tavern.context import VibeTavernContext
from tavernkit.vibe_tavern.options import section
from tavernkit.vibe_tavern.pipeline import Builder
from tavernkit.vibe_tavern.runner_config import RunnerConfig
from tavernkit.vibe_tavern.transports import chat_body
from tavernkit.vibe_tavern.transports.base import ChatChunk, ChatResponse, Transport
from tavernkit.vibe_tavern.transports.tool_call_deltas import ToolCalls

NATIVE_DIALECTS = frozenset(("anthropic", "google"))
"""Protocols that a transport of their own translates to; their requests are built in OpenAI's shape."""


@dataclass(frozen=True, kw_only=True)
class PromptRequest:
    """A request that is ready to be sent, with everything it was made from.

    ``options`` are what was asked for; ``request`` is the body in OpenAI's shape, with only what the provider takes.
    """

    plan: Plan
    config: RunnerConfig
    context: VibeTavernContext
    dialect: str
    messages: list[JsonObject]
    options: JsonObject
    request: JsonObject
    strict: bool = False
    response_transforms: Sequence[str] = ()

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def capabilities(self) -> Capabilities:
        """What the provider and model support."""
        return self.config.capabilities


@dataclass(frozen=True, kw_only=True)
class PromptResult:
    """An answer: the assistant message after response transforms, and the body as it came."""

    prompt_request: PromptRequest
    response: ChatResponse
    assistant_message: JsonObject
    finish_reason: str | None
    elapsed_ms: int
    logprobs: JsonObject | None = field(default=None)

    @property
    def body(self) -> JsonObject:
        """The body of the answer, in OpenAI's shape; for a stream only its usage."""
        return self.response.body

    @property
    def text(self) -> str:
        """What the assistant says."""
        return chat_body.content_text(self.assistant_message.get("content"))

    @property
    def usage(self) -> JsonObject | None:
        """Token counts as the provider reports them."""
        return chat_body.usage(self.body)

    @property
    def reasoning(self) -> str:
        """What a reasoning model thought, if the provider tells."""
        for key in ("reasoning_content", "reasoning"):
            text = self.assistant_message.get(key)
            if isinstance(text, str) and text:
                return text
        return ""

    @property
    def refusal(self) -> str:
        """Why the model refused, if it did."""
        text = self.assistant_message.get("refusal")
        return text if isinstance(text, str) else ""


class PromptStream:
    """A running stream: iterate over its chunks; :attr:`result` is there once it has ended."""

    def __init__(self, request: PromptRequest, chunks: AsyncIterator[ChatChunk], clock: Callable[[], float]) -> None:
        self._request = request
        self._chunks = chunks
        self._clock = clock
        self._started = clock()
        self._texts: dict[str, list[str]] = {"text": [], "reasoning": [], "refusal": []}
        self._calls = ToolCalls()
        self._last = ChatChunk()
        self._result: PromptResult | None = None

    async def __aiter__(self) -> AsyncGenerator[ChatChunk]:
        async for chunk in self._chunks:
            for kind, texts in self._texts.items():
                texts.append(getattr(chunk, kind))
            for delta in chunk.tool_calls:
                self._calls.add(delta)
            if chunk.finish_reason or chunk.usage or chunk.logprobs:
                self._last = ChatChunk(
                    finish_reason=chunk.finish_reason or self._last.finish_reason,
                    usage=chunk.usage or self._last.usage,
                    logprobs=chunk.logprobs or self._last.logprobs,
                )
            yield chunk
        self._result = self._finished()

    @property
    def result(self) -> PromptResult:
        """The whole answer."""
        if self._result is None:
            raise ConfigError("the stream has not ended: iterate over it first", code="STREAM_NOT_ENDED")
        return self._result

    def _finished(self) -> PromptResult:
        joined = {kind: "".join(texts) for kind, texts in self._texts.items()}
        message: JsonObject = {"role": "assistant", "content": joined["text"]}
        if joined["reasoning"]:
            message["reasoning_content"] = joined["reasoning"]
        if joined["refusal"]:
            message["refusal"] = joined["refusal"]
        if self._calls:
            message["tool_calls"] = [*self._calls.assembled()]
        _write_variables(self._request)
        apply_response_transforms(self._request, message)
        return PromptResult(
            prompt_request=self._request,
            response=ChatResponse(body={} if self._last.usage is None else {"usage": self._last.usage}),
            assistant_message=message,
            finish_reason=self._last.finish_reason,
            elapsed_ms=elapsed_ms(self._started, self._clock),
            logprobs=self._last.logprobs,
        )


class PromptRunner:
    """Sends requests through a transport; holds no configuration.

    Pass one transport, or several: the one that speaks a request's dialect is used.
    """

    @checked
    def __init__(
        self, transport: Transport | Iterable[Transport], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        transports = [transport] if isinstance(transport, Transport) else list(transport)
        for each in transports:
            require("transport", each, Transport)
        if not transports:
            raise ConfigError("PromptRunner needs a transport", code="TRANSPORT_REQUIRED")
        self._transports = {each.dialect: each for each in transports}
        self._only = transports[0] if len(transports) == 1 else None
        self._clock = clock

    @checked
    def build_request(
        self,
        config: RunnerConfig,
        *,
        history: HistoryLike = None,
        message: str = "",
        system: str | None = None,
        variables: VariablesStore | None = None,
        strict: bool = False,
        llm_options: Mapping[str, object] | None = None,
        dialect: str = "openai",
        message_transforms: Sequence[str] = (),
        response_transforms: Sequence[str] = (),
    ) -> PromptRequest:
        """Build a request: the prompt, the options over the configured ones, and the checks."""
        options = request_policy.normalize_options(_merged_options(config, llm_options))
        context = config.context.replace(
            history=history,
            message=message,
            system_text=system or "",
            llm_options=options,
            default_model_hint=config.context.default_model_hint or config.model,
            strict=strict or config.context.strict,
            variables=variables if variables is not None else config.context.variables,
            dialect=dialect,
        )
        plan = Builder(config.pipeline).run(context)
        messages = _messages(plan, dialect)
        request = request_policy.filter_request(
            {"model": config.model, "messages": messages, **options}, config.capabilities
        )
        preflight.validate_request(
            config.capabilities, tools=bool(options.get("tools")), response_format=options.get("response_format")
        )
        sent = request["messages"]
        assert is_list(sent)
        messages = [each for each in sent if is_object(each)]
        registry = config.infrastructure.message_transforms
        for transform in registry.resolve(message_transforms, strict=strict, warn=context.warning_handler):
            transform(messages)
        request["messages"] = [*messages]
        return PromptRequest(
            plan=plan,
            config=config,
            context=context,
            dialect=dialect,
            messages=messages,
            options=options,
            request=request,
            strict=strict,
            response_transforms=tuple(response_transforms),
        )

    @checked
    async def perform(self, request: PromptRequest) -> PromptResult:
        """Send a request and read the answer."""
        if request.request.get("stream"):
            raise ConfigError("perform does not stream: use perform_stream", code="STREAM_IN_LLM_OPTIONS")
        started = self._clock()
        response = await self._transport(request.dialect).complete(thaw_object(request.request))
        taken = elapsed_ms(started, self._clock)
        _write_variables(request)
        message = chat_body.assistant_message(response.body)
        apply_response_transforms(request, message)
        logprobs = chat_body.first_choice(response.body).get("logprobs")
        return PromptResult(
            prompt_request=request,
            response=response,
            assistant_message=message,
            finish_reason=chat_body.finish_reason(response.body),
            elapsed_ms=taken,
            logprobs=logprobs if is_object(logprobs) else None,
        )

    @asynccontextmanager
    @checked
    async def stream(self, request: PromptRequest, *, include_usage: bool = True) -> AsyncGenerator[PromptStream]:
        """Send a chat-only request and iterate over the answer as it comes; leaving the context ends the request.

        >>> async with runner.stream(request) as stream:     # doctest: +SKIP
        ...     async for chunk in stream:
        ...         print(chunk.text, end="")
        >>> stream.result.text                               # doctest: +SKIP
        """
        options = request.options
        preflight.validate_request(
            request.capabilities,
            stream=True,
            tools=bool(options.get("tools") or options.get("tool_choice")),
            response_format=options.get("response_format"),
        )
        body = thaw_object(request.request)
        body["stream"] = True
        if include_usage:
            body["stream_options"] = {"include_usage": True}
        async with self._transport(request.dialect).stream(body) as chunks:
            yield PromptStream(request, chunks, self._clock)

    @checked
    async def perform_stream(
        self,
        request: PromptRequest,
        *,
        include_usage: bool = True,
        on_delta: Callable[[str], object] | None = None,
    ) -> PromptResult:
        """Send a chat-only request, call ``on_delta`` with each piece of text, and return the whole answer."""
        async with self.stream(request, include_usage=include_usage) as stream:
            async for chunk in stream:
                if chunk.text and on_delta is not None:
                    on_delta(chunk.text)
        return stream.result

    async def aclose(self) -> None:
        """Close the transports."""
        for transport in self._transports.values():
            await transport.aclose()

    def _transport(self, dialect: str) -> Transport:
        found = self._transports.get(dialect) or self._only
        if found is None or (dialect in NATIVE_DIALECTS and found.dialect != dialect):
            raise ConfigError(
                f"there is no transport for dialect {dialect!r}; there are {', '.join(self._transports)}",
                code="NO_TRANSPORT_FOR_DIALECT",
            )
        return found


def apply_response_transforms(request: PromptRequest, message: JsonObject) -> None:
    """Bring an assistant message into form with the request's transforms, in place."""
    registry = request.config.infrastructure.response_transforms
    warn = request.context.warning_handler
    for transform in registry.resolve(request.response_transforms, strict=request.strict, warn=warn):
        transform(message, request.config.output_tags)


def _write_variables(request: PromptRequest) -> None:
    """Write what the prompt did to the variables, now that it is answered."""
    if request.context.variables is not None:
        request.plan.variables.apply(request.context.variables)


def elapsed_ms(started: float, clock: Callable[[], float]) -> int:
    """Whole milliseconds since a moment of the same clock."""
    return max(round((clock() - started) * 1000), 0)


def _merged_options(config: RunnerConfig, llm_options: Mapping[str, object] | None) -> dict[str, object]:
    given = section(llm_options, "llm_options")
    for key in ("stream", "stream_options"):
        if key in given:
            raise ConfigError(f"llm_options cannot set {key}: use perform_stream", code="STREAM_IN_LLM_OPTIONS")
    own = {key: value for key, value in given.items() if key not in ("model", "messages")}
    return deep_merge(thaw_object(config.llm_options_defaults), own)


def _messages(plan: Plan, dialect: str) -> list[JsonObject]:
    """The messages of a request. For native protocols they keep all that their transport can translate."""
    if dialect in NATIVE_DIALECTS:
        return [_full_message(message) for message in plan.messages]
    messages = thaw(plan.to_messages(dialect, attachments=True))
    if not is_list(messages) or not all(is_object(message) for message in messages):
        raise ConfigError(
            f"dialect {dialect!r} does not give a list of messages; use openai, or anthropic or google with their own "
            "transports",
            code="DIALECT_NOT_A_MESSAGE_LIST",
        )
    return [message for message in messages if is_object(message)]


def _full_message(message: Message) -> JsonObject:
    full: JsonObject = {**message.to_dict(), **thaw_object(message.metadata or {})}
    if message.attachments:
        full["attachments"] = [thaw(attachment) for attachment in message.attachments]
    return full
