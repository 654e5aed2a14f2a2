"""Caches between builds: facts about the messages of a chat, and messages that are the same in every build."""

from __future__ import annotations

import re
import threading
from bisect import bisect_left
from collections.abc import Hashable, Sequence
from itertools import accumulate

from tavernkit._dataclass import dataclass
from tavernkit._text.traced import is_tracing
from tavernkit._values import LRUCache, same_start
from tavernkit.risu_ai._chat.chat_log import has_id, with_ids
from tavernkit.risu_ai._chat.prompt_message import PromptMessage
from tavernkit.risu_ai._limits import REMEMBERED_MESSAGES
from tavernkit.risu_ai._objects import RisuChat, RisuMessage
from tavernkit.risu_ai._regex_scripts.results import NO_RESULT, ResultKey, ScriptedTexts

_BRANCH_COMMENT = re.compile(r"\{\{specialcomment::[^{}<]*\}\}")
"""The comment of a branch looks like a function of CBS that does not exist, about which every turn would warn."""


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
            # `may_have_cbs()`, for thousands of messages
            if ("{" in text or "<" in text or type(text) is not str) and not _BRANCH_COMMENT.fullmatch(text):
                with_cbs.append(place)
            if raw.get("disabled"):
                disabled.append(place)
        return KnownMessages(messages, without_id, with_cbs, disabled)


def may_have_cbs(text: str) -> bool:
    """Return True if expanding a text may change it or have side effects; always True for a traced text."""
    return "{" in text or "<" in text or type(text) is not str


def _count(_key: object, known: KnownMessages) -> int:
    return len(known.messages)


class ChatCache:
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


@dataclass(frozen=True, slots=True)
class Written:
    """A message that a build wrote. ``result`` is the constant result of scripts, if there are scripts."""

    item: PromptMessage
    tokens: int
    changes: bool
    result: tuple[ResultKey, str] | None = None


@dataclass(frozen=True, slots=True)
class WrittenMessages:
    """Sent messages and their written forms. Immutable."""

    messages: tuple[RisuMessage, ...] = ()
    items: Sequence[PromptMessage] = ()
    """The written form of each. A build that changes one copies it first."""
    tokens: Sequence[int] = ()
    sums: Sequence[int] = (0,)
    """Tokens of all items before an index."""
    changing: Sequence[int] = ()
    """Indexes of messages that every build must write."""
    scripted: ScriptedTexts | None = None
    """Script results of the messages; there may be more of them."""

    def until(self, end: int) -> WrittenMessages:
        """Return the part before an index."""
        if end >= len(self.messages):
            return self
        changing = self.changing[: bisect_left(self.changing, end)]
        return WrittenMessages(
            self.messages[:end], self.items[:end], self.tokens[:end], self.sums[: end + 1], changing, self.scripted
        )

    def extended(self, messages: tuple[RisuMessage, ...], written: Sequence[Written]) -> WrittenMessages:
        """Return these with more written messages."""
        if not written:
            return self
        items, tokens = [*self.items, *(each.item for each in written)], [each.tokens for each in written]
        changing = [*self.changing, *(at for at, each in enumerate(written, len(self.items)) if each.changes)]
        sums = [*self.sums, *list(accumulate(tokens, initial=self.sums[-1]))[1:]]
        scripted = _extended(self.scripted, len(self.items), written)
        return WrittenMessages(messages, items, [*self.tokens, *tokens], sums, changing, scripted)

    def with_changed(self, changed: Sequence[tuple[int, Written]]) -> WrittenMessages:
        """Return these with other items at some indexes."""
        if not changed:
            return self
        items, tokens = list(self.items), list(self.tokens)
        for place, written in changed:
            items[place], tokens[place] = written.item, written.tokens
        sums = list(accumulate(tokens, initial=0))
        return WrittenMessages(self.messages, items, tokens, sums, self.changing, self.scripted)


_GROWING = threading.Lock()


def _extended(scripted: ScriptedTexts | None, count: int, written: Sequence[Written]) -> ScriptedTexts | None:
    """Add messages after the first ``count``; a copy is made if there are already others."""
    if scripted is None:
        return None
    with _GROWING:
        if len(scripted) != count:
            scripted = scripted.until(count)
        for each in written:
            scripted.append(*(each.result or (NO_RESULT, "")))
    return scripted


def _written_count(_key: object, written: WrittenMessages) -> int:
    return len(written.messages)


class HistoryCache:
    """Caches the written messages of some chats."""

    def __init__(self) -> None:
        self._chats: LRUCache[Hashable, WrittenMessages] = LRUCache(REMEMBERED_MESSAGES, _written_count)

    def find(self, rules: Hashable, messages: tuple[RisuMessage, ...], *, has_scripts: bool) -> WrittenMessages:
        """Return the cached written messages of a chat.

        Args:
            rules: The rules for writing.
            messages: The messages that are sent.
            has_scripts: True if scripts run over messages.
        """
        known = self._chats.get((rules, id(messages[0]))) if messages else None
        if known is None:
            return WrittenMessages(scripted=ScriptedTexts() if has_scripts else None)
        return known if known.messages is messages else known.until(same_start(known.messages, messages))

    def put(self, rules: Hashable, written: WrittenMessages) -> None:
        """Cache written messages."""
        if written.messages:
            self._chats.put((rules, id(written.messages[0])), written)
