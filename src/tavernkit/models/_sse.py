"""Server-sent events, read as they arrive, with size limits."""

from __future__ import annotations

import codecs
import re
from typing import Final

from tavernkit._dataclass import dataclass
from tavernkit.models._limits import MAX_SSE_EVENT_BYTES
from tavernkit.models.errors import DecodeError

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
