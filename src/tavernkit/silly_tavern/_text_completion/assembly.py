"""SillyTavern's budget of a text prompt: injections first, then the chat, then example dialogue."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import field, replace

from tavernkit._dataclass import dataclass
from tavernkit._values import LazySequence
from tavernkit.silly_tavern._caching.frozen_lore import FrozenLine
from tavernkit.silly_tavern._chat_completion.assembly import HistoryCut
from tavernkit.silly_tavern._text_completion.history_items import (
    HistoryItem,
    HistoryItems,
    ReplyLine,
    entries_of,
    is_user,
)
from tavernkit.silly_tavern._text_completion.messages import ChatEntry, TextMessage, frozen_message
from tavernkit.silly_tavern._text_completion.plan import Segment, text_of
from tavernkit.silly_tavern._token_counting.messages import TextCounter


@dataclass(frozen=True, slots=True, kw_only=True)
class TextLayout:
    """The input of the assembly; ``items`` are newest first, ``injected`` are positions in them."""

    story: Sequence[Segment]
    examples: Sequence[Segment]
    items: HistoryItems
    injected: Sequence[int]
    inserted: int
    """How many of them are not lines of the chat."""
    reply: ReplyLine
    alignment: Segment | None
    start: Segment | None
    continuing: bool
    pin_examples: bool
    loses_newline: bool
    history_cut: HistoryCut | None = None
    """How the history is cut, if not as in SillyTavern, which drops the oldest message every turn."""
    names: Sequence[str] = ("", "", "")
    """The names of the roles system, user and assistant."""


@dataclass(slots=True)
class AssembledText:
    """The assembled prompt. ``history`` is oldest first; ``continued`` is the message that the model continues."""

    story: Sequence[Segment]
    start: Segment | None
    examples: list[Segment] = field(default_factory=list[Segment])
    history: list[list[Segment]] = field(default_factory=list[list[Segment]])
    continued: list[Segment] = field(default_factory=list[Segment])
    sent: list[HistoryItem] = field(default_factory=list[HistoryItem])
    """Items of the history that are in the prompt, oldest first, then the continued one."""
    left_out: Sequence[HistoryItem] = ()
    left_out_entries: Sequence[ChatEntry | None] = ()
    """The messages of items that are left out."""
    left_out_inserted: Sequence[TextMessage] = ()
    """Those of them that are not lines of the chat."""
    left_out_examples: list[Segment] = field(default_factory=list[Segment])
    cut: int | None = None
    """With a ``HistoryCut``, the number of the first chat line that is in the prompt."""
    frozen: list[FrozenLine] = field(default_factory=list[FrozenLine])
    """Lore that is in the prompt as a line of the history."""

    def segments(self) -> list[Segment]:
        """The prompt, piece by piece."""
        history = [segment for item in self.history for segment in item]
        start = [self.start] if self.start is not None else []
        return [*self.story, *self.examples, *start, *history, *self.continued]


def assemble(layout: TextLayout, limit: float, counter: TextCounter) -> AssembledText:
    """Assemble a prompt within a limit. Never raises: with a long story string, there is no room for the chat."""
    return _Assembly(layout, limit, counter).run()


class _Assembly:
    def __init__(self, layout: TextLayout, limit: float, counter: TextCounter) -> None:
        self.layout = layout
        self.limit = limit
        self.counter = counter
        self.items: Sequence[HistoryItem] = layout.items
        self.first = 0
        """The place of the newest item that may be left out."""
        self.inserted = layout.inserted
        self.injected = list(layout.injected)
        self.result = AssembledText(layout.story, layout.start)
        self.kept: set[int] = set()
        self.aligned = False

    def run(self) -> AssembledText:
        layout, result = self.layout, self.result
        if layout.pin_examples:
            result.examples = list(layout.examples)
        continued: list[HistoryItem] = []
        if layout.continuing and len(self.items) > 1:
            continued = [self.items[0]]
            # One that is written as nothing is not sent, so the prompt ends like any other.
            result.continued = continued[0].segments if continued[0].text else []
            self.first = 1
        if layout.history_cut is None or not self.keep_from_cut(layout.history_cut):
            self.fill_history()
        kept = [self.items[place] for place in sorted(self.kept, reverse=True)]
        result.history = [item.segments for item in kept]
        if kept:  # the reply line is added to it
            result.history[-1] = list(kept[-1].segments)
        result.sent = [*kept, *continued]
        self.align()
        if not layout.pin_examples:
            self.fill_examples()
        self.finish()
        self.leave_out()
        sent = [item.entry for item in kept if type(item.entry) is TextMessage]
        result.frozen = [entry.frozen for entry in sent if entry.frozen is not None]
        return result

    def leave_out(self) -> None:
        """Report what is left out. Of a long chat that is most of it, so nothing here looks at each message."""
        items, entries, kept, result = self.items, entries_of(self.items), self.kept, self.result
        if entries[0] is None:  # an empty chat has nothing to lose
            return
        oldest = max(kept, default=self.first - 1)
        between = [place for place in range(self.first, oldest) if place not in kept]
        count = len(between) + len(items) - oldest - 1

        def place(number: int) -> int:
            return between[number] if number < len(between) else oldest + 1 + number - len(between)

        result.left_out = LazySequence(count, lambda number: items[place(number)])
        result.left_out_entries = LazySequence(count, lambda number: entries[place(number)])
        placed = [type(entries[place]) is TextMessage for place in (*range(self.first), *kept)]
        if sum(placed) < self.inserted:
            result.left_out_inserted = [each for each in result.left_out_entries if type(each) is TextMessage]

    def count(self, history: str = "") -> int:
        """Return the tokens of everything except the history.

        The alignment message counts in every prompt; where it is used, it is in the history and counts twice.
        """
        layout, result = self.layout, self.result
        fixed = [segment for segment in (layout.alignment, layout.start) if segment is not None]
        before = [segment.text for segment in (*layout.story, *result.examples, *fixed)]
        behind = [segment.text for segment in result.continued]
        return self.counter.prompt("".join([*before, history, layout.reply.alone(), *behind]))

    def fill_history(self) -> None:
        """Add injections first, then the rest from the newest on; the first that does not fit ends its part."""
        used = self.count()
        reserved = [place for place in self.injected if self.first <= place < len(self.items)]
        known = frozenset(reserved)
        others = (place for place in range(self.first, len(self.items)) if place not in known)
        for places in (reserved, others):
            for place in places:
                used += self.items[place].tokens(self.counter)
                # What does not fit stays counted: an injection that is too large keeps all of the chat out.
                if used >= self.limit:  # exactly the limit does not fit either
                    break
                self.kept.add(place)

    def keep_from_cut(self, how: HistoryCut) -> bool:
        """Keep everything from a position on; return False if not even the newest message fits."""
        from tavernkit.silly_tavern._caching.text_cutting import cut_text

        if not self.layout.pin_examples:
            how = replace(how, examples=sum(self.counter.text(segment.text) for segment in self.layout.examples))
        items = self.items[self.first :]
        injected = [place - self.first for place in self.injected if place >= self.first]
        cut = cut_text(items, injected, self.limit, self.count(), self.counter.text, how)
        if cut is None:
            return False
        self.result.cut = cut.line
        write = self.layout.items.writer.item
        again = [write(frozen_message(line, self.layout.names)) for line in reversed(cut.again)]
        self.items, self.first = [*items[: cut.newest], *again, *items[cut.newest :]], 0
        self.inserted += len(again)
        self.kept = {place if place < cut.newest else place + len(again) for place in cut.kept}
        self.kept.update(range(cut.newest, cut.newest + len(again)))
        return True

    def align(self) -> None:
        # If nothing fits, the newest message decides. The alignment itself is never checked against the limit.
        alignment = self.layout.alignment
        if alignment is None:
            return
        oldest = max(self.kept, default=self.first)
        if not is_user(entries_of(self.items)[oldest]):
            self.result.history.insert(0, [alignment])
            self.aligned = True

    def fill_examples(self) -> None:
        used = self.count("".join(segment.text for item in self.result.history for segment in item))
        if self.layout.history_cut is not None:
            # They are before the history, so they must not come back when a cut makes room.
            whole = used + sum(self.counter.text(segment.text) for segment in self.layout.examples)
            if self.result.cut or whole >= self.limit:
                return
        for segment in self.layout.examples:
            used += self.counter.text(segment.text)
            if used >= self.limit:
                break
            self.result.examples.append(segment)

    def finish(self) -> None:
        """End the newest item with the reply line; a continued prompt drops what does not fit, and retries."""
        layout, result = self.layout, self.result
        if layout.loses_newline and result.history:
            _lose_newline(result.history[-1])
        self.add_reply()
        # SillyTavern adds the reply line again on each try: the name may be in the prompt several times.
        while result.continued and self.too_long():
            if result.examples and not layout.pin_examples:
                result.examples.pop()
            elif result.history:
                self.drop_oldest()
            else:
                break
            self.add_reply()
        result.left_out_examples = list(layout.examples[len(result.examples) :])

    def drop_oldest(self) -> None:
        self.result.history.pop(0)
        if self.aligned:
            self.aligned = False
        else:
            self.kept.discard(max(self.kept))

    def add_reply(self) -> None:
        if self.result.history:
            self.layout.reply.add_to(self.result.history[-1])

    def too_long(self) -> bool:
        if math.isinf(self.limit):
            return False
        text = text_of(self.result.segments()) + "\n" + self.layout.reply.alone()
        return self.counter.prompt(text) > self.limit


def _lose_newline(segments: list[Segment]) -> None:
    if segments and segments[-1].text.endswith("\n"):
        segments[-1] = Segment(segments[-1].text[:-1], segments[-1].origin)
