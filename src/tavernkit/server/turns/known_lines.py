"""Caches lines of chats between turns."""

from __future__ import annotations

from collections import OrderedDict

from tavernkit.server.limits import CACHED_CHATS, MAX_CACHED_LINES
from tavernkit.server.storage.chats import ChatLine


class KnownLines:
    """Lines by session and its version. The least recently used ones are dropped."""

    def __init__(self, *, chats: int = CACHED_CHATS, lines: int = MAX_CACHED_LINES) -> None:
        """Make a cache.

        Args:
            chats: The maximum number of chats.
            lines: The maximum number of lines in total.
        """
        self._most_chats = chats
        self._most_lines = lines
        self._known: OrderedDict[str, tuple[int, list[ChatLine]]] = OrderedDict()
        self._total = 0

    def get(self, chat_id: str) -> tuple[int, list[ChatLine]] | None:
        """Return the version and the lines of a chat."""
        found = self._known.get(chat_id)
        if found is not None:
            self._known.move_to_end(chat_id)
        return found

    def put(self, chat_id: str, version: int, lines: list[ChatLine]) -> None:
        """Cache a chat at a version."""
        old = self._known.pop(chat_id, None)
        self._total += len(lines) - (len(old[1]) if old is not None else 0)
        self._known[chat_id] = (version, lines)
        while self._known and (len(self._known) > self._most_chats or self._total > self._most_lines):
            _, (_, gone) = self._known.popitem(last=False)
            self._total -= len(gone)
