"""Messages of a chat as earlier builds have written them, as far as every build writes them alike."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Hashable, Sequence
from itertools import accumulate

from tavernkit._dataclass import dataclass
from tavernkit._values import LRUCache, same_start
from tavernkit.risu_ai._chat.prompt_message import PromptMessage
from tavernkit.risu_ai._limits import REMEMBERED_MESSAGES
from tavernkit.risu_ai._objects import RisuMessage
from tavernkit.risu_ai._regex_scripts.results import NO_RESULT, ResultKey, ScriptedTexts


@dataclass(frozen=True, slots=True)
class Written:
    """A message that a build wrote. ``result`` is what scripts always make of its text, if there are scripts."""

    item: PromptMessage
    tokens: int
    changes: bool
    result: tuple[ResultKey, str] | None = None


@dataclass(frozen=True, slots=True)
class WrittenMessages:
    """Messages that were sent, and what was written for them. Nothing in it is changed once it is made."""

    messages: tuple[RisuMessage, ...] = ()
    items: Sequence[PromptMessage] = ()
    """What each became. A build that changes one copies it first."""
    tokens: Sequence[int] = ()
    sums: Sequence[int] = (0,)
    """Tokens of all items before a place."""
    changing: Sequence[int] = ()
    """Places of messages that every build has to write."""
    scripted: ScriptedTexts | None = None
    """What scripts made of the messages; it may go on behind them."""

    def until(self, end: int) -> WrittenMessages:
        """Return what was written for the messages before a place."""
        if end >= len(self.messages):
            return self
        changing = self.changing[: bisect_left(self.changing, end)]
        return WrittenMessages(
            self.messages[:end], self.items[:end], self.tokens[:end], self.sums[: end + 1], changing, self.scripted
        )

    def extended(self, messages: tuple[RisuMessage, ...], written: Sequence[Written]) -> WrittenMessages:
        """Return these with what was written for the messages behind them."""
        if not written:
            return self
        items, tokens = [*self.items, *(each.item for each in written)], [each.tokens for each in written]
        changing = [*self.changing, *(at for at, each in enumerate(written, len(self.items)) if each.changes)]
        sums = [*self.sums, *list(accumulate(tokens, initial=self.sums[-1]))[1:]]
        scripted = _extended(self.scripted, len(self.items), written)
        return WrittenMessages(messages, items, [*self.tokens, *tokens], sums, changing, scripted)

    def with_changed(self, changed: Sequence[tuple[int, Written]]) -> WrittenMessages:
        """Return these with other items at some places."""
        if not changed:
            return self
        items, tokens = list(self.items), list(self.tokens)
        for place, written in changed:
            items[place], tokens[place] = written.item, written.tokens
        sums = list(accumulate(tokens, initial=0))
        return WrittenMessages(self.messages, items, tokens, sums, self.changing, self.scripted)


_GROWING = threading.Lock()


def _extended(scripted: ScriptedTexts | None, count: int, written: Sequence[Written]) -> ScriptedTexts | None:
    """Add messages behind the first ``count``; a copy is made if others stand there already."""
    if scripted is None:
        return None
    with _GROWING:
        if len(scripted) != count:
            scripted = scripted.until(count)
        for each in written:
            scripted.append(*(each.result or (NO_RESULT, "")))
    return scripted


def _count(_key: object, written: WrittenMessages) -> int:
    return len(written.messages)


class HistoryMemory:
    """Remembers the written messages of some chats."""

    def __init__(self) -> None:
        self._chats: LRUCache[Hashable, WrittenMessages] = LRUCache(REMEMBERED_MESSAGES, _count)

    def find(self, rules: Hashable, messages: tuple[RisuMessage, ...], *, has_scripts: bool) -> WrittenMessages:
        """Return what was written for the first messages of a chat.

        Args:
            rules: What the writing depends on.
            messages: The messages that are sent.
            has_scripts: Whether scripts run over messages.
        """
        known = self._chats.get((rules, id(messages[0]))) if messages else None
        if known is None:
            return WrittenMessages(scripted=ScriptedTexts() if has_scripts else None)
        return known if known.messages is messages else known.until(same_start(known.messages, messages))

    def put(self, rules: Hashable, written: WrittenMessages) -> None:
        """Remember what was written."""
        if written.messages:
            self._chats.put((rules, id(written.messages[0])), written)
