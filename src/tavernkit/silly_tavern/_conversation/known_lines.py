"""The lines of a chat with what was made of them: nothing is made again of a line that is as it was."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar, cast

from tavernkit._values import JsonObject, same_start, thaw_object
from tavernkit.cards._json_text import dump_json
from tavernkit.silly_tavern._chat.chat_message import ChatMessage

T = TypeVar("T")

NEWEST_LINES = 32
"""How many of the newest lines a turn changes at most; of the others it changes the first."""


class KnownLines:
    """Copies of lines as they were, as bytes of a file and as messages."""

    def __init__(self) -> None:
        self.copies: list[JsonObject] = []
        self.version = 0
        """Another number after every change."""
        self._lines: list[JsonObject] = []
        self._written_version = self._read_version = 0
        self._bytes: list[bytes | None] = []
        self._messages: list[ChatMessage | None] = []

    def see(self, lines: list[JsonObject], *, in_turn: bool) -> None:
        """Take notice of the lines as they are now.

        Args:
            lines: The lines. Anybody may change any of them, so that each is compared with its copy.
            in_turn: Only look at lines that a turn changes by itself.
        """
        start = 0
        if in_turn and len(self.copies) > NEWEST_LINES and lines[:1] == self.copies[:1]:
            newest = len(self.copies) - NEWEST_LINES
            if lines[1:newest] == self._lines[1:newest]:  # the same objects
                start = newest
        if len(lines) == len(self.copies) and lines[start:] == self.copies[start:]:
            return
        now, copies = tuple(lines), tuple(self.copies)
        same = same_start(copies, now, start)
        most = min(len(copies), len(now)) - same
        end = same_start(copies[::-1][:most], now[::-1][:most]) if most else 0
        self._replace(same, len(copies) - end, now[same : len(now) - end])

    def _replace(self, start: int, end: int, lines: Sequence[JsonObject]) -> None:
        self.version += 1
        self._lines[start:end] = lines
        self.copies[start:end] = [thaw_object(line) for line in lines]
        self._bytes[start:end] = [None] * len(lines)
        self._messages[start:end] = [None] * len(lines)

    def written(self) -> list[bytes]:
        """Return the lines as their file has them."""
        if self._written_version != self.version:
            _fill(self._bytes, self.copies, _written)
            self._written_version = self.version
        return cast("list[bytes]", self._bytes)

    def messages(self) -> list[ChatMessage]:
        """Return the lines as messages."""
        if self._read_version != self.version:
            _fill(self._messages, self.copies, ChatMessage.from_json)
            self._read_version = self.version
        return cast("list[ChatMessage]", self._messages)


def _fill(made: list[T | None], copies: Sequence[JsonObject], make: Callable[[JsonObject], T]) -> None:
    """Make what is missing in a list."""
    for place, known in enumerate(made):
        if known is None:
            made[place] = make(copies[place])


def _written(line: JsonObject) -> bytes:
    return dump_json(line or ChatMessage().to_json()).encode("utf-8", "surrogatepass")
