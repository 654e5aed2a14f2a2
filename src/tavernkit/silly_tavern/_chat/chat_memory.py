"""What is known of the lines of a chat from one build to the next, so that a long chat is not read from its start."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from tavernkit._dataclass import dataclass
from tavernkit._text.traced import is_tracing
from tavernkit._values import LRUCache, same_start
from tavernkit.silly_tavern._chat.chat_message import ChatMessage
from tavernkit.silly_tavern._chat.core_chat import CoreMessage, core_chat, is_plain, is_shown
from tavernkit.silly_tavern._limits import REMEMBERED_CHATS

_FIRST = 1
"""The first line of a chat is expanded in every build, so that it is a new object each time; it is not remembered."""


@dataclass(frozen=True, slots=True)
class KnownLines:
    """Some lines of a chat and what they are in every build. Nothing in it is changed once it is made."""

    lines: tuple[ChatMessage, ...] = ()
    core: Sequence[CoreMessage] = ()
    """Messages of the core chat behind the first line."""
    changing: Sequence[int] = ()
    """Places in ``core`` of messages whose text a build has to make."""
    summaries: Sequence[int] = ()
    """Numbers of lines with a summary, behind the first line."""
    users: int = 0
    """How many lines behind the first are the user's."""

    def until(self, end: int) -> KnownLines:
        """Return what is known of the lines before the one numbered ``end``."""
        if end >= len(self.lines):
            return self
        core = self.core[: bisect_left(self.core, end, key=_index)]
        changing = self.changing[: bisect_left(self.changing, len(core))]
        summaries = self.summaries[: bisect_left(self.summaries, end)]
        users = self.users - sum(line.is_user for line in self.lines[max(end, _FIRST) :])
        return KnownLines(self.lines[:end], core, changing, summaries, users)

    def extended(self, lines: tuple[ChatMessage, ...], *, with_tools: bool) -> KnownLines:
        """Return what is known of a chat that begins with these lines."""
        start = max(len(self.lines), _FIRST)
        if len(lines) <= start:
            return self
        users = self.users
        core, changing, summaries = list(self.core), list(self.changing), list(self.summaries)
        for index in range(start, len(lines)):
            line = lines[index]
            users += line.is_user
            if is_shown(line, with_tools=with_tools):
                if not is_plain(line):
                    changing.append(len(core))
                core.append(CoreMessage(line, index, line.mes))
            if line.extra and "memory" in line.extra:
                summaries.append(index)
        return KnownLines(lines, core, changing, summaries, users)

    def new_messages(
        self, first: Sequence[ChatMessage], *, generation_type: str, with_tools: bool
    ) -> tuple[list[CoreMessage], list[CoreMessage]]:
        """Return the core chat of a build, and those of its messages whose text is still to be made.

        Args:
            first: The first line of the chat, if it has one.
            generation_type: The type of generation.
            with_tools: Whether lines about tools are shown.
        """
        head = core_chat(first, generation_type="normal", with_tools=with_tools)
        core = [*head, *self.core]
        for place in self.changing:
            old = self.core[place]
            core[len(head) + place] = CoreMessage(old.line, old.index, old.text)
        if generation_type == "swipe" and core:
            core.pop()
        unmade = [*range(len(head)), *(len(head) + place for place in self.changing)]
        return core, [core[place] for place in unmade if place < len(core)]


class ChatMemory:
    """Remembers the lines of some chats."""

    def __init__(self) -> None:
        self._chats: LRUCache[tuple[int, bool], KnownLines] = LRUCache(REMEMBERED_CHATS)

    def know(self, chat: tuple[ChatMessage, ...], *, with_tools: bool) -> KnownLines:
        """Return what there is to know of a chat; only lines that were not there before are read.

        Args:
            chat: Its lines.
            with_tools: Whether lines about tools are shown.
        """
        if len(chat) <= _FIRST or is_tracing():
            return KnownLines().extended(chat, with_tools=with_tools)
        # An id is enough: the line stays alive in the value.
        key = (id(chat[_FIRST]), with_tools)
        known = self._chats.get(key) or KnownLines()
        known = known.until(same_start(known.lines, chat, _FIRST)).extended(chat, with_tools=with_tools)
        self._chats.put(key, known)
        return known


def _index(message: CoreMessage) -> int:
    return message.index
