"""Streamed replies of every provider: server-sent events are read within limits, and pieces are joined to a reply."""

from __future__ import annotations

import codecs
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing
from dataclasses import field, replace
from typing import Final

from tavernkit._dataclass import dataclass
from tavernkit._values import EMPTY_OBJECT, FrozenJson, FrozenObject, freeze_object, is_mapping, is_sequence
from tavernkit.models._limits import MAX_SSE_EVENT_BYTES
from tavernkit.models._reply import FinishReason, Reply, ReplyPiece, ToolCall, ToolCallPiece, Usage
from tavernkit.models.errors import DecodeError, ModelError

EMPTY_ARGUMENTS = "{}"


@dataclass(slots=True)
class _Call:
    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list[str])
    extra: dict[str, FrozenJson] = field(default_factory=dict[str, FrozenJson])

    def whole(self, position: int) -> ToolCall:
        return ToolCall(
            id=self.id or f"call_{position + 1}",
            name=self.name,
            arguments="".join(self.arguments) or EMPTY_ARGUMENTS,
            extra=freeze_object(self.extra),
        )


class Accumulator:
    """Collects the pieces of one reply.

    >>> collected = Accumulator()
    >>> for text in ("Hel", "lo"):
    ...     _ = collected.add(ReplyPiece(text=text))
    >>> collected.reply().text
    'Hello'
    """

    def __init__(self, model: str = "") -> None:
        self._model = model
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._refusal: list[str] = []
        self._alternatives: dict[int, list[str]] = {}
        self._calls: list[_Call] = []
        self._places: dict[int, int] = {}
        self._finish_reason: FinishReason | None = None
        self._usage: Usage | None = None
        self._logprobs = _LogProbs()
        self._extra: dict[str, FrozenJson] = {}
        self._details = _ReasoningDetails()
        self._raw: FrozenObject | None = None
        self.started = False
        """True once the model has said something."""

    def add(self, piece: ReplyPiece) -> ReplyPiece:
        """Add a piece; return it with the indexes of its tool calls in the reply."""
        self.started = self.started or piece.spoken
        self._text.append(piece.text)
        self._reasoning.append(piece.reasoning)
        self._refusal.append(piece.refusal)
        for number, text in piece.alternatives:
            self._alternatives.setdefault(number, []).append(text)
        self._finish_reason = piece.finish_reason or self._finish_reason
        self._usage = piece.usage or self._usage
        self._logprobs.add(piece.logprobs)
        self._model = piece.model or self._model
        if piece.extra:
            self._extra.update(piece.extra)
            self._details.add(piece.extra.get(REASONING_DETAILS))
        if piece.raw is not None and (self._raw is None or piece.usage is not None or self._usage is None):
            self._raw = piece.raw
        if not piece.tool_calls:
            return piece
        return replace(piece, tool_calls=tuple(self._add_call(call) for call in piece.tool_calls))

    def _add_call(self, piece: ToolCallPiece) -> ToolCallPiece:
        # Some servers give all calls the same index: a piece with another id begins another call.
        place = self._places.get(piece.index)
        if place is None or (piece.id and self._calls[place].id not in ("", piece.id)):
            place = self._places[piece.index] = len(self._calls)
            self._calls.append(_Call())
        call = self._calls[place]
        call.id = call.id or piece.id or ""
        call.name = call.name or piece.name or ""
        call.arguments.append(piece.arguments)
        call.extra.update(piece.extra or {})
        return piece if piece.index == place else replace(piece, index=place)

    def reply(self, *, interrupted: str = "") -> Reply:
        """Return everything so far as a reply.

        Args:
            interrupted: Why the reply ended early.
        """
        return Reply(
            text="".join(self._text),
            reasoning="".join(self._reasoning),
            refusal="".join(self._refusal),
            tool_calls=tuple(call.whole(position) for position, call in enumerate(self._calls)),
            alternatives=tuple("".join(self._alternatives[number]) for number in sorted(self._alternatives)),
            finish_reason=self._finish_reason or "unknown",
            usage=self._usage or Usage(),
            logprobs=self._logprobs.whole(),
            model=self._model,
            interrupted=interrupted,
            extra=freeze_object({**self._extra, **self._details.whole()}),
            raw=self._raw or EMPTY_OBJECT,
        )


REASONING_DETAILS: Final = "reasoning_details"
_TEXTS: Final = ("text", "summary")


class _ReasoningDetails:
    """OpenRouter's reasoning, which goes back whole: a text comes in pieces, its signature with the last one."""

    def __init__(self) -> None:
        self._blocks: list[dict[str, object]] = []
        self._texts: list[dict[str, list[str]]] = []

    def add(self, pieces: FrozenJson) -> None:
        for place, piece in enumerate(pieces if is_sequence(pieces) else ()):
            if not is_mapping(piece):
                continue
            if place or not self._continues(piece):  # blocks of one event are separate
                self._blocks.append({})
                self._texts.append({})
            for name, value in piece.items():
                if name in _TEXTS and isinstance(value, str):
                    self._texts[-1].setdefault(name, []).append(value)
                elif value is not None or name not in self._blocks[-1]:
                    self._blocks[-1][name] = value

    def _continues(self, piece: Mapping[str, object]) -> bool:
        if not self._blocks or "data" in piece:
            return False
        last = self._blocks[-1]
        return all(piece.get(name) in (None, last.get(name)) for name in ("type", "index", "id"))

    def whole(self) -> dict[str, object]:
        blocks = [
            {**block, **{name: "".join(parts) for name, parts in texts.items()}}
            for block, texts in zip(self._blocks, self._texts, strict=True)
        ]
        return {REASONING_DETAILS: blocks} if blocks else {}


class _LogProbs:
    """The token probabilities of all pieces, joined."""

    def __init__(self) -> None:
        self._lists: dict[str, list[object]] = {}
        self._rest: dict[str, object] | None = None

    def add(self, piece: FrozenObject | None) -> None:
        if piece is None:
            return
        self._rest = self._rest or {}
        for name, value in piece.items():
            if is_sequence(value):
                # Lists are extended in place: joining whole lists for every token would take minutes.
                self._lists.setdefault(name, []).extend(value)
            else:
                self._rest[name] = value

    def whole(self) -> FrozenObject | None:
        return None if self._rest is None else freeze_object({**self._rest, **self._lists})


async def keep_partial(pieces: AsyncGenerator[ReplyPiece], model: str = "") -> AsyncGenerator[ReplyPiece]:
    """Pass pieces on; an error in the middle of a reply gets the text so far as its ``partial``."""
    collected = Accumulator(model)
    try:
        async with aclosing(pieces):
            async for piece in pieces:
                yield collected.add(piece)
    except ModelError as error:
        if error.partial is None and collected.started:
            error.partial = collected.reply(interrupted=str(error) or type(error).__name__)
        raise


async def collect(
    pieces: AsyncIterator[ReplyPiece], on_delta: Callable[[ReplyPiece], object] | None = None, *, model: str = ""
) -> Reply:
    """Read a stream to its end.

    Args:
        pieces: The stream.
        on_delta: Called with each piece.
        model: The name of the model, unless the stream names it.
    """
    collected = Accumulator(model)
    async for piece in pieces:
        placed = collected.add(piece)
        if on_delta is not None:
            on_delta(placed)
    return collected.reply()


DONE: Final = "[DONE]"
_LINE_END = re.compile(r"\r\n|\n|\r")


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """One event: its name, if it has one, and its data lines joined by newlines."""

    data: str
    name: str | None = None


class SSEParser:
    """Takes bytes in portions of any size and returns complete events."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._line: list[str] = []
        self._data: list[str] = []
        self._name: str | None = None
        self._size = 0

    def feed(self, portion: bytes) -> list[ServerEvent]:
        """Parse bytes; return the events that they complete."""
        return self._take(self._decoder.decode(portion), final=False)

    def finish(self) -> list[ServerEvent]:
        """Return the last event if no blank line ended it."""
        return [*self._take(self._decoder.decode(b"", final=True), final=True), *self._end_event()]

    def _take(self, text: str, *, final: bool) -> list[ServerEvent]:
        self._size += len(text)
        if self._size > MAX_SSE_EVENT_BYTES:
            raise DecodeError(f"a server-sent event is larger than {MAX_SSE_EVENT_BYTES} bytes")
        self._line.append(text)
        if not final and "\n" not in text and "\r" not in text and "\r" not in self._line[0][-1:]:
            return []
        joined = "".join(self._line)
        # A carriage return at the end may be half of a line ending: the next portion decides.
        held = "\r" if joined.endswith("\r") and not final else ""
        *lines, rest = _LINE_END.split(joined.removesuffix(held))
        if final:
            lines += [rest] if rest else []
            rest = ""
        self._line = [rest + held]
        events: list[ServerEvent] = []
        for line in lines:
            if line:
                self._field(line)
            else:
                events += self._end_event()
        return events

    def _field(self, line: str) -> None:
        name, _, value = line.removeprefix("\ufeff").partition(":")
        if name == "data":
            self._data.append(value.lstrip(" "))
        elif name == "event":
            self._name = value.strip()

    def _end_event(self) -> list[ServerEvent]:
        event = [ServerEvent("\n".join(self._data), self._name)] if self._data else []
        self._data, self._name, self._size = [], None, sum(map(len, self._line))
        return event
