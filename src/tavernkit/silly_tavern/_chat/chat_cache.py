"""Caches the core chat from build to build: only new lines are read, and only their texts are made."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Sequence
from functools import partial

from tavernkit._dataclass import dataclass
from tavernkit._text.traced import is_tracing
from tavernkit._values import LRUCache, same_start
from tavernkit.silly_tavern._chat.attachments import MEDIA_KEYS
from tavernkit.silly_tavern._chat.chat_message import ChatMessage
from tavernkit.silly_tavern._chat.core_chat import (
    CoreMessage,
    FileTexts,
    core_chat,
    has_reasoning,
    is_plain,
    is_shown,
    newest_depth,
    prepare_texts,
)
from tavernkit.silly_tavern._limits import CACHED_LINES
from tavernkit.silly_tavern._scripts.prompt_scripts import PromptScripts

_FIRST = 1
"""The first line of a chat is expanded in every build, so it is a new object each time and is not cached."""


@dataclass(frozen=True, slots=True)
class KnownLines:
    """Some lines of a chat and their constant messages. Immutable."""

    lines: tuple[ChatMessage, ...] = ()
    core: Sequence[CoreMessage] = ()
    """Messages of the core chat after the first line."""
    changing: Sequence[int] = ()
    """Positions in ``core`` of messages whose text depends on the build."""
    summaries: Sequence[int] = ()
    """Numbers of lines with a summary, after the first line."""
    users: int = 0
    """How many lines after the first are the user's."""
    reasonings: int = 0
    """How many lines after the first have stored reasoning."""
    media: Sequence[int] = ()
    """Numbers of lines with media, after the first line."""

    def until(self, end: int) -> KnownLines:
        """Return the part before line ``end``."""
        if end >= len(self.lines):
            return self
        core = self.core[: bisect_left(self.core, end, key=_index)]
        changing = self.changing[: bisect_left(self.changing, len(core))]
        summaries = self.summaries[: bisect_left(self.summaries, end)]
        cut = self.lines[max(end, _FIRST) :]
        users = self.users - sum(line.is_user for line in cut)
        reasonings = self.reasonings - sum(has_reasoning(line) for line in cut)
        media = self.media[: bisect_left(self.media, end)]
        return KnownLines(self.lines[:end], core, changing, summaries, users, reasonings, media)

    def extended(self, lines: tuple[ChatMessage, ...], *, with_tools: bool) -> KnownLines:
        """Return an extended copy for a chat that begins with these lines."""
        start = max(len(self.lines), _FIRST)
        if len(lines) <= start:
            return self
        users, reasonings = self.users, self.reasonings
        core, changing, summaries = list(self.core), list(self.changing), list(self.summaries)
        media = list(self.media)
        for index in range(start, len(lines)):
            line = lines[index]
            users += line.is_user
            if is_shown(line, with_tools=with_tools):
                if not is_plain(line):
                    changing.append(len(core))
                core.append(CoreMessage(line, index, line.mes))
            if line.extra and "memory" in line.extra:
                summaries.append(index)
            if line.extra:
                reasonings += has_reasoning(line)
                if not MEDIA_KEYS.isdisjoint(line.extra):
                    media.append(index)
        return KnownLines(lines, core, changing, summaries, users, reasonings, media)

    def messages(
        self, first: Sequence[ChatMessage], *, generation_type: str, with_tools: bool
    ) -> tuple[list[CoreMessage], int]:
        """Return the core chat of a build before its texts are made, and how many messages the first line gives.

        Args:
            first: The first line of the chat, if it has one.
            generation_type: The type of generation.
            with_tools: True if lines about tools are shown.
        """
        head = core_chat(first, generation_type="normal", with_tools=with_tools)
        core = [*head, *self.core]
        if generation_type == "swipe" and core:
            core.pop()
        return core, min(len(head), len(core))


@dataclass(frozen=True, slots=True)
class ScriptedMessages:
    """The older messages of a chat before and after regex scripts. Nothing in it is changed once it is made."""

    before: Sequence[CoreMessage] = ()
    after: Sequence[CoreMessage] = ()
    varying: Sequence[int] = ()
    """Places of texts that every build has to make."""

    def until(self, messages: Sequence[CoreMessage]) -> ScriptedMessages:
        """Return what is known of messages of which the first may be the same."""
        same = same_start(tuple(self.before), tuple(messages))
        if same == len(self.before):
            return self
        varying = self.varying[: bisect_left(self.varying, same)]
        return ScriptedMessages(self.before[:same], self.after[:same], varying)


class ChatCache:
    """Caches the lines of some chats."""

    def __init__(self) -> None:
        self._chats: LRUCache[tuple[int, bool], KnownLines] = LRUCache(CACHED_LINES, _lines_of)
        self._scripted: LRUCache[Hashable, ScriptedMessages] = LRUCache(CACHED_LINES, _messages_of)

    def know(self, chat: tuple[ChatMessage, ...], *, with_tools: bool) -> KnownLines:
        """Return the cached data of a chat; only new lines are read.

        Args:
            chat: Its lines.
            with_tools: True if lines about tools are shown.
        """
        if len(chat) <= _FIRST or is_tracing():
            return KnownLines().extended(chat, with_tools=with_tools)
        # An id is enough: the value keeps the line alive.
        key = (id(chat[_FIRST]), with_tools)
        known = self._chats.get(key) or KnownLines()
        known = known.until(same_start(known.lines, chat, _FIRST)).extended(chat, with_tools=with_tools)
        self._chats.put(key, known)
        return known

    def make_texts(
        self,
        core: list[CoreMessage],
        known: KnownLines,
        head: int,
        *,
        generation_type: str,
        scripts: PromptScripts | None,
        file_text: FileTexts,
    ) -> None:
        """Make the texts of a core chat, except those that are the same in every build.

        Args:
            core: The core chat.
            known: What is known of its lines.
            head: How many messages its first line gives.
            generation_type: The type of generation.
            scripts: The regex scripts.
            file_text: Returns the joined text of a message's files, and the files whose text was found.
        """
        make = partial(prepare_texts, generation_type=generation_type, scripts=scripts, file_text=file_text)
        changing = [head + place for place in known.changing if head + place < len(core)]
        if scripts is None or is_tracing():
            make(core, range(len(core)) if scripts is not None else (*range(head), *changing))
            return
        # Scripts may depend on the depth. Messages that are deeper than any script checks stay so while the chat grows.
        settled = max(min(scripts.count_settled(len(core), newest_depth(generation_type)), len(core)) - head, 0)
        key = (id(known.core[0]) if known.core else None, scripts.oldest)
        raw = known.core[:settled]
        old = (self._scripted.get(key) or ScriptedMessages()).until(raw)
        count = min(len(old.after), settled)
        core[head : head + count] = old.after[:count]
        again = {head + place for place in old.varying if place < count}
        again.update(place for place in changing if place < head + count)
        for place in again:
            core[place] = known.core[place - head]
        varying = make(core, (*range(head), *sorted(again), *range(head + count, len(core))))
        new = [place - head for place in varying if head + count <= place < head + settled]
        if settled >= len(old.before):
            after = [*old.after, *core[head + count : head + settled]]
            self._scripted.put(key, ScriptedMessages(raw, after, [*old.varying, *new]))


def _lines_of(_key: object, known: KnownLines) -> int:
    return len(known.lines)


def _messages_of(_key: object, known: ScriptedMessages) -> int:
    return len(known.before)


def _index(message: CoreMessage) -> int:
    return message.index
