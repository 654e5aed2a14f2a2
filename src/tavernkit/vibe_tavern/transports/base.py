"""What a transport is: sends one chat request, gives back one answer or its pieces."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from tavernkit.arguments import check_fields
from tavernkit.values import JsonObject

_NO_MORE = (None, None, None)
_NO_REST = ("", "", None, None, None)


@dataclass(frozen=True, slots=True)
class ChatResponse:
    """An answer, in the shape of OpenAI's chat completions whatever the provider."""

    body: JsonObject
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str])

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True, slots=True)
class ToolCallDelta:
    """A piece of the tool call at ``index``: id and name come once, the JSON text of its arguments in fragments."""

    index: int
    id: str | None = None
    name: str | None = None
    arguments: str = ""
    extra: JsonObject | None = None
    """What else a provider puts into a call and wants back with it."""

    def __post_init__(self) -> None:
        rest = (self.id, self.name, self.extra)
        if type(self.index) is int and type(self.arguments) is str and rest == _NO_MORE:
            return  # most pieces are a fragment and no more, and there are hundreds of them in a call
        check_fields(self)


@dataclass(frozen=True, slots=True)
class ChatChunk:
    """A piece of a streamed answer; most hold nothing but text."""

    text: str = ""
    reasoning: str = ""
    refusal: str = ""
    finish_reason: str | None = None
    usage: JsonObject | None = None
    logprobs: JsonObject | None = None
    tool_calls: tuple[ToolCallDelta, ...] = ()

    def __post_init__(self) -> None:
        rest = (self.reasoning, self.refusal, self.finish_reason, self.usage, self.logprobs)
        if type(self.text) is str and rest == _NO_REST and (self.tool_calls == () or _are_deltas(self.tool_calls)):
            return  # one is made for each token
        check_fields(self)


def _are_deltas(calls: Sequence[object]) -> bool:
    return isinstance(calls, tuple) and set(map(type, calls)) == {ToolCallDelta}


@runtime_checkable
class Transport(Protocol):
    """Takes requests in the shape of OpenAI's chat completions and raises only what is in ``vibe_tavern.errors``.

    ``dialect`` names the provider's own protocol. A transport belongs to one event loop and is closed by its owner.
    """

    @property
    def dialect(self) -> str:
        """The protocol it speaks: ``openai``, ``anthropic``, ``google``."""
        ...

    async def complete(self, request: JsonObject) -> ChatResponse:
        """Send a request and wait for the whole answer."""
        ...

    def stream(self, request: JsonObject) -> AbstractAsyncContextManager[AsyncIterator[ChatChunk]]:
        """Send a request and hand out the answer as it comes; leaving the context ends the request."""
        ...

    async def aclose(self) -> None:
        """Close connections."""
        ...
