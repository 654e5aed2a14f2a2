"""What a model answers."""

from __future__ import annotations

from dataclasses import field
from typing import Literal, TypeAlias

from tavernkit._dataclass import dataclass
from tavernkit._values import EMPTY_OBJECT, FrozenObject, JsonObject, is_mapping, thaw_object
from tavernkit.prompt._message import Message

FinishReason: TypeAlias = Literal["stop", "length", "tool_calls", "content_filter", "error", "unknown"]
"""Why a reply ended, in OpenAI's words; ``unknown`` if the provider does not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A function that the model wants called."""

    id: str
    name: str
    arguments: str
    """JSON, as the model wrote it."""
    extra: FrozenObject = field(default_factory=lambda: EMPTY_OBJECT)
    """What else the provider puts into a call and wants back with it."""

    def to_dict(self) -> JsonObject:
        """Return the call in OpenAI's shape."""
        function: JsonObject = {"name": self.name, "arguments": self.arguments}
        return {"id": self.id, "type": "function", "function": function, **thaw_object(self.extra)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens of a request and its reply. Zero where nothing is known."""

    input_tokens: int = 0
    output_tokens: int = 0
    """Tokens of the reply, reasoning included."""
    cached_tokens: int = 0
    """Input tokens that the provider took from its prompt cache."""
    reasoning_tokens: int = 0
    reported: bool = False
    """True if the provider reported the numbers; otherwise they are estimates."""

    @property
    def total_tokens(self) -> int:
        """Input and output together."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: Usage) -> Usage:
        """Add up two requests; the sum counts as reported if both are."""
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
            reasoning_tokens=self.reasoning_tokens + other.reasoning_tokens,
            reported=self.reported and other.reported,
        )

    def to_dict(self) -> JsonObject:
        """Return the counts in OpenAI's shape."""
        counts: JsonObject = {
            "prompt_tokens": self.input_tokens,
            "completion_tokens": self.output_tokens,
            "total_tokens": self.total_tokens,
        }
        if self.cached_tokens:
            counts["prompt_tokens_details"] = {"cached_tokens": self.cached_tokens}
        if self.reasoning_tokens:
            counts["completion_tokens_details"] = {"reasoning_tokens": self.reasoning_tokens}
        return counts


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallPiece:
    """A piece of the tool call at ``index``: id and name come once, the JSON of its arguments in fragments."""

    index: int
    id: str | None = None
    name: str | None = None
    arguments: str = ""
    extra: FrozenObject | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyPiece:
    """A piece of a streamed reply; most hold nothing but text."""

    text: str = ""
    reasoning: str = ""
    refusal: str = ""
    tool_calls: tuple[ToolCallPiece, ...] = ()
    finish_reason: FinishReason | None = None
    usage: Usage | None = None
    logprobs: FrozenObject | None = None
    model: str = ""
    """The model that answers, if the provider names it in this piece."""
    extra: FrozenObject = field(default_factory=lambda: EMPTY_OBJECT)
    """What else belongs to the message and has to go back to the provider with it, e.g. signed thinking."""
    raw: FrozenObject | None = None
    """The provider's event, on pieces with usage or a finish reason."""

    @property
    def spoken(self) -> bool:
        """True if the piece holds part of the reply itself: text, reasoning, a refusal or a tool call."""
        return bool(self.text or self.reasoning or self.refusal or self.tool_calls)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What a model answered, the same for every provider, streamed or not."""

    text: str = ""
    reasoning: str = ""
    refusal: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    alternatives: tuple[str, ...] = ()
    """Texts of the other candidates, if the request asked for several (``n``)."""
    finish_reason: FinishReason = "unknown"
    usage: Usage = field(default_factory=Usage)
    logprobs: FrozenObject | None = None
    model: str = ""
    """The model that answered, as the provider names it."""
    interrupted: str = ""
    """Why the reply is not complete: the stream broke or was cancelled. Empty if it is complete."""
    extra: FrozenObject = field(default_factory=lambda: EMPTY_OBJECT)
    """What else belongs to the message and has to go back to the provider with it, e.g. signed thinking."""
    raw: FrozenObject = field(default_factory=lambda: EMPTY_OBJECT)
    """The provider's own body; of a stream, its last event with usage or a finish reason."""

    def usage_object(self) -> JsonObject | None:
        """Return token counts in OpenAI's shape, with all that OpenAI-compatible servers report; None without any."""
        counts = self.raw.get("usage")
        if is_mapping(counts) and "input_tokens" not in counts:
            return thaw_object(counts)
        return self.usage.to_dict() if self.usage.reported else None

    def to_message(self) -> Message:
        """Return the reply as a message, ready to stand in the next request."""
        metadata: JsonObject = thaw_object(self.extra)
        if self.tool_calls:
            metadata["tool_calls"] = [call.to_dict() for call in self.tool_calls]
        return Message("assistant", self.text, metadata=metadata or None)

    def to_dict(self) -> JsonObject:
        """Return the assistant's message in OpenAI's shape."""
        message: JsonObject = {"role": "assistant", "content": self.text}
        if self.tool_calls:
            message["tool_calls"] = [call.to_dict() for call in self.tool_calls]
        if self.reasoning:
            message["reasoning_content"] = self.reasoning
        if self.refusal:
            message["refusal"] = self.refusal
        return message | thaw_object(self.extra)
