"""Caches facts about the messages of a chat between builds, so that a long chat is not read from its start."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from tavernkit._dataclass import dataclass
from tavernkit._text.traced import is_tracing
from tavernkit._values import LRUCache, same_start
from tavernkit.risu_ai._chat.chat_log import has_id, with_ids
from tavernkit.risu_ai._limits import REMEMBERED_MESSAGES
from tavernkit.risu_ai._objects import RisuChat, RisuMessage


@dataclass(frozen=True, slots=True)
class KnownMessages:
    """The indexes of messages that a build must check, in order. Immutable."""

    messages: tuple[RisuMessage, ...] = ()
    without_id: Sequence[int] = ()
    with_cbs: Sequence[int] = ()
    """Messages that CBS may change."""
    disabled: Sequence[int] = ()
    """Messages that are disabled in some way."""

    def until(self, end: int) -> KnownMessages:
        """Return the part before an index."""
        if end >= len(self.messages):
            return self
        return KnownMessages(
            self.messages[:end],
            self.without_id[: bisect_left(self.without_id, end)],
            self.with_cbs[: bisect_left(self.with_cbs, end)],
            self.disabled[: bisect_left(self.disabled, end)],
        )

    def extended(self, messages: tuple[RisuMessage, ...]) -> KnownMessages:
        """Return an extended copy for a chat that begins with these messages."""
        without_id, with_cbs, disabled = list(self.without_id), list(self.with_cbs), list(self.disabled)
        for place in range(len(self.messages), len(messages)):
            message = messages[place]
            text, raw = message.data, message.raw
            if not has_id(message):
                without_id.append(place)
            if "{" in text or "<" in text or type(text) is not str:  # `may_have_cbs()`, for thousands of messages
                with_cbs.append(place)
            if raw.get("disabled"):
                disabled.append(place)
        return KnownMessages(messages, without_id, with_cbs, disabled)


def may_have_cbs(text: str) -> bool:
    """Return True if expanding a text may change it or have side effects; always True for a traced text."""
    return "{" in text or "<" in text or type(text) is not str


def _count(_key: object, known: KnownMessages) -> int:
    return len(known.messages)


class ChatMemory:
    """Caches facts about the messages of some chats."""

    def __init__(self) -> None:
        self._chats: LRUCache[int, KnownMessages] = LRUCache(REMEMBERED_MESSAGES, _count)

    def know(self, messages: tuple[RisuMessage, ...]) -> KnownMessages:
        """Return the cached facts about messages; only new ones are read."""
        if not messages or is_tracing():
            return KnownMessages().extended(messages)
        key = id(messages[0])  # which stays alive in the value
        known = self._chats.get(key)
        if known is not None and known.messages is messages:
            return known
        known = known.until(same_start(known.messages, messages)) if known is not None else KnownMessages()
        known = known.extended(messages)
        self._chats.put(key, known)
        return known

    def with_ids(self, chat: RisuChat) -> RisuChat:
        """Add ids to all messages."""
        return with_ids(chat, self.know(chat.messages).without_id)
