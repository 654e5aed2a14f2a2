"""What a send asks of the outside, and what it is told."""

from __future__ import annotations

from collections.abc import AsyncIterable, Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from tavernkit.arguments import check_fields
from tavernkit.errors import TavernKitError
from tavernkit.risu_ai.plan import RisuPlan
from tavernkit.values import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """A request to a model: the messages as RisuAI would post them, and what else belongs to the body.

    ``plan`` is the prompt they were made of; ``stream`` says whether the user wants the reply piece by piece.
    """

    model: str
    messages: list[JsonObject]
    options: JsonObject
    stream: bool
    plan: RisuPlan

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True, slots=True)
class NextChunk:
    """Asks for the next piece of a streamed reply."""


@dataclass(frozen=True, slots=True)
class Reply:
    """The whole reply."""

    text: str

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True, slots=True)
class Failure:
    """The model could not answer; ``message`` is what the provider says."""

    message: str

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True, slots=True)
class StreamOpened:
    """The reply comes piece by piece."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a streamed reply; nothing ends it."""

    text: str | None

    def __post_init__(self) -> None:
        check_fields(self)


Ask: TypeAlias = ModelRequest | NextChunk
Answer: TypeAlias = Reply | Failure | StreamOpened | Chunk


class RequestFailedError(TavernKitError):
    """Raise this from a model function when the provider refuses; the message is what the user is told."""


Model: TypeAlias = Callable[[ModelRequest], "str | Iterable[str]"]
"""Answers a request: with the reply, or with its pieces. Raises :class:`RequestFailedError` when it cannot."""

AsyncModel: TypeAlias = Callable[[ModelRequest], "Awaitable[str] | AsyncIterable[str]"]
"""The same for asynchronous programs."""
