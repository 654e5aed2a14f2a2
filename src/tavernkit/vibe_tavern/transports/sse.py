"""Server-sent events, read as they come and bounded in size."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass
from typing import Final

from tavernkit.vibe_tavern.errors import DecodeError
from tavernkit.vibe_tavern.limits import MAX_SSE_EVENT_BYTES

DONE: Final = "[DONE]"
_LINE_END = re.compile(r"\r\n|\n|\r")


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """One event: its name, if it has one, and its data lines joined by newlines."""

    data: str
    name: str | None = None


class SSEParser:
    """Feeds on bytes in any portions and gives the events that are complete."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._text = ""
        self._data: list[str] = []
        self._name: str | None = None
        self._size = 0

    def feed(self, portion: bytes) -> list[ServerEvent]:
        """Take bytes; return the events that ended in them."""
        return self._take(self._decoder.decode(portion), final=False)

    def finish(self) -> list[ServerEvent]:
        """Return what is left: a last event that no blank line ended."""
        return [*self._take(self._decoder.decode(b"", final=True), final=True), *self._end_event()]

    def _take(self, text: str, *, final: bool) -> list[ServerEvent]:
        self._text += text
        self._size += len(text)
        if self._size > MAX_SSE_EVENT_BYTES:
            raise DecodeError(f"a server-sent event is larger than {MAX_SSE_EVENT_BYTES} bytes")
        events: list[ServerEvent] = []
        lines = _LINE_END.split(self._text)
        # A carriage return at the end may be half of a line end: its other half decides in the next portion.
        if self._text.endswith("\r") and not final:
            lines = [*lines[:-2], f"{lines[-2]}\r"] if len(lines) > 1 else lines
        self._text = lines.pop()
        if final and self._text:
            lines.append(self._text)
            self._text = ""
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
        self._data, self._name, self._size = [], None, len(self._text)
        return event
