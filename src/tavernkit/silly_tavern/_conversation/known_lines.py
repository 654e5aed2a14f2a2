"""Caches what is made from the lines of a chat, as long as they do not change."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar, cast

from tavernkit._values import GrowingJoin, JsonObject, same_start, thaw_object
from tavernkit.cards._json_text import dump_json
from tavernkit.silly_tavern._chat.chat_message import ChatMessage

T = TypeVar("T")

NEWEST_LINES = 32
"""The maximum number of newest lines that a turn changes; of the others, it changes only the first."""


class KnownLines:
    """Copies of lines, as bytes of a file and as messages."""

    def __init__(self) -> None:
        self.copies: list[JsonObject] = []
        """Copies of the lines. The list itself never changes either, so snapshots share it."""
        self.version = 0
        """A number that changes with every change."""
        self._lines: list[JsonObject] = []
        self._bytes: list[bytes | None] = []
        self._messages: list[ChatMessage | None] = []
        self._unwritten = self._unread = 0
        """The first positions with missing values."""
        self._joined = GrowingJoin(b"\n")

    def see(self, lines: list[JsonObject], *, in_turn: bool) -> None:
        """Update the cache to the current lines.

        Args:
            lines: The lines. Any of them may have changed, so each is compared with its copy.
            in_turn: Only check lines that a turn can change.
        """
        start = 0
        if in_turn and len(self.copies) > NEWEST_LINES and lines[:1] == self.copies[:1]:
            newest = len(self.copies) - NEWEST_LINES
            if len(lines) >= newest and lines[newest - 1] is self._lines[newest - 1]:  # none was added or removed
                start = newest
        now, copies = (lines[start:], self.copies[start:]) if start else (lines, self.copies)
        if now == copies:
            if not start:
                self._lines = [*lines]
            return
        same = same_start(copies, now)
        most = min(len(copies), len(now)) - same
        end = same_start(copies[::-1][:most], now[::-1][:most]) if most else 0
        self._replace(start + same, len(self.copies) - end, now[same : len(now) - end])
        if not start:
            self._lines = [*lines]

    def _replace(self, start: int, end: int, lines: Sequence[JsonObject]) -> None:
        self.version += 1
        self._lines[start:end] = lines
        copies = self.copies.copy()
        copies[start:end] = map(thaw_object, lines)
        self.copies = copies
        self._bytes[start:end] = [None] * len(lines)
        self._messages[start:end] = [None] * len(lines)
        self._unwritten, self._unread = min(self._unwritten, start), min(self._unread, start)

    def know(self, lines: Sequence[JsonObject], copies: Sequence[JsonObject], messages: Sequence[ChatMessage]) -> None:
        """Take lines of which messages are made already.

        Args:
            lines: The lines.
            copies: Copies of the lines, which are never changed.
            messages: The messages made from them.
        """
        self.version += 1
        self._lines, self.copies = [*lines], [*copies]
        self._bytes = [None] * len(lines)
        self._messages = list[ChatMessage | None](messages)
        self._unwritten = 0

    def written(self) -> list[bytes]:
        """Return the lines in file format, with line breaks between them; most are already joined."""
        same = self._unwritten
        self._unwritten = _fill(self._bytes, same, self.copies, _written)
        return self._joined.join(cast("list[bytes]", self._bytes), same)

    def messages(self) -> list[ChatMessage]:
        """Return the lines as messages."""
        self._unread = _fill(self._messages, self._unread, self.copies, ChatMessage.from_json)
        return cast("list[ChatMessage]", self._messages)


def _fill(made: list[T | None], start: int, copies: Sequence[JsonObject], make: Callable[[JsonObject], T]) -> int:
    """Fill in missing values of a list from a position on, and return its end."""
    for place in range(start, len(made)):
        if made[place] is None:
            made[place] = make(copies[place])
    return len(made)


def _written(line: JsonObject) -> bytes:
    return dump_json(line or ChatMessage().to_json()).encode("utf-8", "surrogatepass")
