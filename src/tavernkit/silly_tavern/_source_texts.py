"""The texts of chat lines and lore entries, traced to their sources, and which of them a source map knows already."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

from tavernkit._text.traced import Origin, collected, give, trace
from tavernkit._values import is_mapping
from tavernkit.cards._character import fields_home
from tavernkit.prompt._block import Block
from tavernkit.prompt._known_texts import KnownLine, TurnInputs
from tavernkit.prompt._plan import Plan
from tavernkit.prompt._traced_inputs import (
    escaped,
    traced_text,
)
from tavernkit.silly_tavern._chat.chat_message import ChatMessage
from tavernkit.silly_tavern._chat_completion.plan import ChatPlan
from tavernkit.silly_tavern._context import SillyTavernContext
from tavernkit.silly_tavern._services import Services, selected_books
from tavernkit.silly_tavern._world_info.book import WorldBook
from tavernkit.silly_tavern._world_info.entry import Entry
from tavernkit.silly_tavern._world_info.result import WorldInfoResult

METADATA_TEXTS = ("note_prompt", "scenario", "mes_example", "system_prompt")
"""The texts of a chat's metadata that can be in a prompt."""

NEWEST_LINES = 4
"""How many of the newest lines of a chat are always traced, because macros such as ``{{lastMessage}}`` use them."""

SHORT_CHAT = 40
"""How many of the newest lines a build for a source map has at most, if that gives the same texts."""

SPARE_LINES = 2
"""How many lines it has besides those that it seems to need: hidden ones do not count."""

_SUMMARY = "memory"
"""The key of a summary of the chat, which is kept with a line."""


class LineTexts:
    """Returns lines of the chat, traced to their places in it."""

    def __init__(
        self, context: SillyTavernContext, lines: Sequence[ChatMessage], plan: ChatPlan, before: Mapping[int, KnownLine]
    ) -> None:
        """Find the lines that are in a plan unchanged.

        Args:
            context: The inputs of the build.
            lines: The chat as the build saw it.
            plan: The plan.
            before: Lines of another plan, by the ids of their blocks.
        """
        self.lines = lines
        self._message = context.message
        self._chat = chat_name(context)
        self.known: dict[int, KnownLine] = {}
        """Lines that are in the plan, by the ids of their blocks."""
        self.whole: dict[int, KnownLine] = {}
        """Those that are blocks unchanged."""
        count, as_text = len(lines), plan.rendered is not None
        # In a text prompt, the first message that is shown may be written in another way.
        self._first = next((index for index, line in enumerate(lines) if not line.is_system), 0)
        self.changed = {0, self._first, *range(max(count - NEWEST_LINES, 0), count)}
        """Lines that are in the plan in another form, have a summary, or are among the newest."""
        self.changed.update([index for index, line in enumerate(lines) if line.extra and _SUMMARY in line.extra])
        self.others: list[tuple[int, Block, object]] = []
        """The other blocks that are sent: their indices in the plan, and their places in the chat, or slots."""
        self.steady: list[tuple[int, Block, object]] = []
        """Those that are made in the same way in the next turn. A text prompt writes the first and the newest lines
        with sequences of their own, which may be equal to the usual ones."""
        self._among = 0
        """How many lines come after the first block that is between lines."""
        for number, block in enumerate(plan.blocks):
            key = id(block)
            known = before.get(key)
            if (
                known is None
                or known.block is not block
                or known.place >= count
                or known.line is not lines[known.place]
                or known.chat != self._chat
            ):
                index = line_of_block(block)
                if index is None or index >= count:
                    if index == count and block.content == context.message and "{" not in block.content and not as_text:
                        self.whole[key] = KnownLine(block, count, None, self._chat, whole=True)
                    elif block.enabled:
                        self.others.append((number, block, block.slot if index is None else index))
                    if self.known and not self._among:
                        self._among = 1
                    continue
                line = lines[index]
                known = KnownLine(block, index, line, self._chat, whole=not as_text and line.mes == block.content)
            self.known[key] = known
            self._among += self._among > 0
            if known.whole:
                self.whole[key] = known
            else:
                self.changed.add(known.place)
                if block.enabled:
                    self.others.append((number, block, known.place))
        if as_text:
            spoken = next((index for index in range(count - 1, -1, -1) if lines[index].is_user), 0)
            steady = range(self._first + 1, min(count - NEWEST_LINES, spoken))
            self.steady += [each for each in self.others if not isinstance(each[2], int) or each[2] in steady]
        else:
            self.steady += self.others

    def kept(self, context: SillyTavernContext, plan: ChatPlan, known: Iterable[int]) -> Sequence[int]:
        """Return the lines of a prompt, without those that are known, unchanged or left out.

        Returns all of them if the result may depend on their number.

        Args:
            context: The inputs of the build.
            plan: The plan.
            known: Ids of blocks whose texts are known.
        """
        count = len(self.lines)
        timed = any(plan.timed_world_info.values()) or any(context.metadata.timed_world_info.values())
        if timed or context.vectors is not None or count <= 2 * SHORT_CHAT:
            return range(count)
        depth = context.settings.world_info.depth
        reach = max(NEWEST_LINES, int(min(depth, SHORT_CHAT)), self._among) + SPARE_LINES
        newest = range(count - min(reach, SHORT_CHAT), count)
        lines = [line.place for key in known if (line := self.known.get(key)) is not None]
        if plan.rendered is not None and 2 * len(lines) < len(self.known):
            return range(count)  # lines that do not fit must not make room for others
        self.changed.difference_update([index for index in lines if self._first < index < newest.start])
        return [*sorted(index for index in self.changed if index < newest.start), *newest]

    def known_slots(self, known: Container[int]) -> set[object]:
        """Return the slots, apart from the chat, of which all blocks are known."""
        slots: set[object] = {place for _, block, place in self.others if place == block.slot and id(block) in known}
        return slots - {block.slot for _, block, _ in self.others if id(block) not in known}

    def has(self, block: Block) -> bool:
        """Return True if a block is an unchanged line of the chat, or the user's new message."""
        index = line_of_block(block)
        if index is None or index >= len(self.lines):
            return id(block) in self.whole
        return block.content == self.lines[index].mes

    def of_block(self, block: Block) -> str:
        """Return the text of a block; for an unchanged line of the chat, with its place."""
        known = self.whole.get(id(block))
        if known is not None:
            if not known.text:
                known.text = self._line(known.place)
            return known.text
        if type(block.content) is not str or not self.has(block):
            return block.content
        index = line_of_block(block)
        assert index is not None
        return self._line(index)

    def unused(self, plan: Plan) -> Iterator[tuple[str, str]]:
        """Yield the lines that are not in a plan, each with the reason."""
        used = {line_of_block(block) for block in plan.enabled_blocks}
        left_out = next((each.reason for each in plan.omissions if each.kind == "history"), "")
        for index, line in enumerate(self.lines):
            if index not in used:
                yield self._line(index), "hidden in the chat" if line.is_system else left_out

    def _line(self, index: int) -> str:
        if index == len(self.lines):
            return traced_text(self._message, "message", "", "")
        line = self.lines[index]
        return traced_text(line.mes, "chat", self._chat, f"/{index}/mes", line.name)


def has_own_chat(context: SillyTavernContext, built: SillyTavernContext) -> bool:
    """Return True if hooks left the chat and the finished prompt alone.

    Args:
        context: The inputs.
        built: The same after hooks changed them.
    """
    return (context.hooks is None or context.hooks.only_before) and built.history is context.history


def turn_inputs(context: SillyTavernContext, plan: ChatPlan, texts: LineTexts) -> TurnInputs | None:
    """Return the inputs that a plan shares with the next one; None if its texts may have other sources.

    Args:
        context: The inputs that hooks left.
        plan: The plan.
        texts: The lines of the chat.
    """
    if context.vectors is not None:
        return None
    lore = plan.lore_result.activated_entries if isinstance(plan.lore_result, WorldInfoResult) else ()
    more = [str(getattr(context.metadata, name)) for name in METADATA_TEXTS]
    return TurnInputs(context, lore, more, texts.lines, _words)


def _words(line: object) -> object:
    return (line.name, line.mes) if isinstance(line, ChatMessage) else None


def place_of(block: Block, lines: Sequence[int] | None = None) -> object:
    """Return the place of a block, comparable between builds: its line, or its slot.

    Args:
        block: The block.
        lines: The lines of the build, if it did not have all.
    """
    index = line_of_block(block)
    if index is None:
        return block.slot
    if not lines:
        return index
    return lines[index] if index < len(lines) else lines[-1] + 1 + index - len(lines)  # the user's new message


def line_of_block(block: Block) -> int | None:
    """Return the index of a block's chat line; None if it is not made from one."""
    source = block.source
    if block.token_budget_group != "history" or not is_mapping(source) or source.get("kind") != "history":
        return None
    index = source.get("id")
    return index if isinstance(index, int) else None


def chat_name(context: SillyTavernContext) -> str:
    """Return the name under which lines of the chat are sources."""
    return context.chat_id or "chat"


class EntryTexts:
    """Returns the texts of lore entries, traced to their books."""

    def __init__(self, context: SillyTavernContext, services: Services) -> None:
        self._context = context
        self._services = services
        self._places: dict[int, tuple[WorldBook, int, str]] | None = None

    def __call__(self, entry: Entry) -> str:
        """Return the text of an entry, without its decorators."""
        card = self._context.card
        made = self._services.entry_texts.get(entry, card)
        if made is None:
            with collected() as origins:
                text = self._trace(entry)
            made = self._services.entry_texts.put((text, origins), entry, card)
        give(made[1])
        return made[0]

    def _trace(self, entry: Entry) -> str:
        written = entry.raw.get("content")
        if not isinstance(written, str) or not written.endswith(entry.content):
            return entry.content
        name, pointer = self._place(entry)
        origin = Origin("lore", name, pointer, written, entry.title)
        return trace(entry.content, origin, len(written) - len(entry.content))

    def _place(self, entry: Entry) -> tuple[str, str]:
        """Return the book of an entry and its place there; for a card's own book, the place in the card."""
        if self._places is None:
            self._places = {
                id(raw): (book, index, key)
                for book in selected_books(self._context, self._services).books
                for index, (key, raw) in enumerate(book.raw_entries())
            }
        found = self._places.get(id(entry.raw))
        if found is None:
            return entry.world, f"/{entry.uid}/content"
        book, index, key = found
        card = self._context.card
        if card is not None and book is self._services.embedded_book(card):
            home = fields_home(card.raw)[1] if card.raw else "/data"
            return book.name, f"{home}/character_book/entries/{index}/content"
        return book.name, f"/entries/{escaped(key)}/content"
