"""What a model answers."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import field
from typing import Final, Literal, TypeAlias

from tavernkit._dataclass import dataclass, short_repr
from tavernkit._values import EMPTY_OBJECT, FrozenObject, JsonObject, is_mapping, thaw_object
from tavernkit.prompt._block import Message

FinishReason: TypeAlias = Literal["stop", "length", "tool_calls", "content_filter", "error", "unknown"]
"""Why a reply ended, in OpenAI's words; ``unknown`` if the provider does not say."""


CUSTOM: Final = "custom"
"""The type of OpenAI's tools that take a text instead of arguments: the extra field ``type`` of their calls."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A function call requested by the model."""

    id: str
    """The provider's id of the call; the result goes back with it."""
    name: str
    """The name of the function."""
    arguments: str
    """JSON, as the model wrote it; the input of a custom tool."""
    extra: FrozenObject = field(default_factory=lambda: EMPTY_OBJECT)
    """Other fields that the provider adds to a call and expects back with it."""

    def to_dict(self) -> JsonObject:
        """Return the call in OpenAI's shape."""
        extra = thaw_object(self.extra)
        if extra.get("type") == CUSTOM:
            return {"id": self.id, "custom": {"name": self.name, "input": self.arguments}, **extra}
        function: JsonObject = {"name": self.name, "arguments": self.arguments}
        return {"id": self.id, "type": "function", "function": function, **extra}


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens of a request and its reply. Zero where nothing is known."""

    input_tokens: int = 0
    """Tokens of the prompt, cached ones included."""
    output_tokens: int = 0
    """Tokens of the reply, reasoning included."""
    cached_tokens: int = 0
    """Input tokens that the provider took from its prompt cache."""
    reasoning_tokens: int = 0
    """Tokens of the reasoning, as part of ``output_tokens``."""
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
    """The provider's id of the call, in its first piece."""
    name: str | None = None
    """The name of the function, in its first piece."""
    arguments: str = ""
    """More of the JSON of the arguments."""
    extra: FrozenObject | None = None
    """Other fields that the provider adds to the call and expects back with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyPiece:
    """A piece of a streamed reply; most contain only text."""

    text: str = ""
    """More of the text."""
    reasoning: str = ""
    """More of the reasoning."""
    refusal: str = ""
    """More of the refusal."""
    tool_calls: tuple[ToolCallPiece, ...] = ()
    """Pieces of tool calls."""
    alternatives: tuple[tuple[int, str], ...] = ()
    """More of the texts of other candidates, with their numbers, if the request asked for several (``n``)."""
    finish_reason: FinishReason | None = None
    """Why the model stopped, in the last piece."""
    usage: Usage | None = None
    """Tokens of the request and the reply, if this piece has them."""
    logprobs: FrozenObject | None = None
    """Probabilities of the tokens in this piece."""
    model: str = ""
    """The model that answers, if the provider names it in this piece."""
    extra: FrozenObject = field(default_factory=lambda: EMPTY_OBJECT)
    """Other fields of the message that the provider expects back with it, e.g. signed thinking."""
    raw: FrozenObject | None = field(default=None, repr=False)
    """The provider's event, on pieces with usage or a finish reason."""

    __repr__ = short_repr

    @property
    def spoken(self) -> bool:
        """True if the piece contains part of a reply: text, reasoning, a refusal or a tool call."""
        return bool(self.text or self.reasoning or self.refusal or self.tool_calls or self.alternatives)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What a model answered, the same for every provider, streamed or not."""

    text: str = ""
    """What the model wrote."""
    reasoning: str = ""
    """What the model thought before it wrote, if the provider shows that."""
    refusal: str = ""
    """Why the model refused, if it did."""
    tool_calls: tuple[ToolCall, ...] = ()
    """Function calls requested by the model."""
    alternatives: tuple[str, ...] = ()
    """Texts of the other candidates, if the request asked for several (``n``)."""
    finish_reason: FinishReason = "unknown"
    """Why the model stopped: ``stop``, ``length``, ``tool_calls``, …"""
    usage: Usage = field(default_factory=Usage)
    """Tokens of the request and the reply."""
    logprobs: FrozenObject | None = None
    """Probabilities of tokens in the provider's shape, if they were asked for."""
    model: str = ""
    """The model that answered, as the provider names it."""
    interrupted: str = ""
    """Why the reply is not complete: the stream broke or was cancelled. Empty if it is complete."""
    extra: FrozenObject = field(default_factory=lambda: EMPTY_OBJECT)
    """Other fields of the message that the provider expects back with it, e.g. signed thinking."""
    raw: FrozenObject = field(default_factory=lambda: EMPTY_OBJECT, repr=False)
    """The provider's own body; of a stream, its last event with usage or a finish reason."""

    __repr__ = short_repr

    def usage_object(self) -> JsonObject | None:
        """Return token counts in OpenAI's shape, with all that compatible servers report; None if unknown."""
        counts = self.raw.get("usage")
        if is_mapping(counts) and "input_tokens" not in counts:
            return thaw_object(counts)
        return self.usage.to_dict() if self.usage.reported else None

    def to_message(self) -> Message:
        """Return the reply as a message for the next request."""
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


def join_replies(spoken: Sequence[tuple[str, Reply]]) -> Reply:
    """Return several replies in one, each after its speaker's name (if there is one), with their costs added."""
    if not spoken:
        return Reply(finish_reason="stop")
    if len(spoken) == 1 and not spoken[0][0]:
        return spoken[0][1]
    replies = [reply for _, reply in spoken]
    return dataclasses.replace(
        replies[-1],
        text="\n\n".join(f"{name}: {reply.text}" if name else reply.text for name, reply in spoken),
        reasoning="\n\n".join(reply.reasoning for reply in replies if reply.reasoning),
        refusal="\n\n".join(reply.refusal for reply in replies if reply.refusal),
        usage=sum((reply.usage for reply in replies[1:]), replies[0].usage),
        raw=replies[0].raw if len(replies) == 1 else EMPTY_OBJECT,
    )
