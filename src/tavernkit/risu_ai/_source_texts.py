"""The texts of messages of a RisuAI chat, traced to their places, and which of them a source map knows already."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from tavernkit._text.traced import Origin
from tavernkit._values import is_mapping
from tavernkit.prompt._block import Block
from tavernkit.prompt._known_texts import KnownTexts, TurnInputs
from tavernkit.prompt._line_forms import KnownLine, LineForm, LinePart, WrittenLines
from tavernkit.prompt._source_spans import TextSource
from tavernkit.prompt._traced_inputs import traced_text
from tavernkit.prompt._traced_spans import origin_of
from tavernkit.risu_ai._budget import Dropped
from tavernkit.risu_ai._chat.chat_cache import ChatCache
from tavernkit.risu_ai._chat.chat_log import chat_id, sent_messages
from tavernkit.risu_ai._context import RisuAIContext
from tavernkit.risu_ai._lorebook.result import LorebookResult
from tavernkit.risu_ai._objects import RisuChat, RisuMessage
from tavernkit.risu_ai._plan import RisuPlan
from tavernkit.risu_ai._steps.plan_assembly import STOPPED

NEWEST_MESSAGES = 8
"""How many of the newest messages are traced in any case: functions such as ``{{lastmessage}}`` give them."""

SHORT_CHAT = 40
"""How many of the newest messages a build for a source map has, if that gives the same texts."""

_MESSAGE = "message"
"""Stands for the user's new message among the kinds of messages."""


class MessageTexts:
    """Returns messages of the chat, traced to their places in it."""

    def __init__(
        self,
        chat: RisuChat,
        message: str,
        plan: RisuPlan,
        known_texts: KnownTexts,
        forms: Mapping[object, LineForm],
    ) -> None:
        """Find the messages that are in a plan unchanged, and those that are written alike.

        Args:
            chat: The chat as the build saw it.
            message: The user's new message.
            plan: The plan.
            known_texts: What the last map left.
            forms: Forms of messages that are known.
        """
        self.chat = chat
        self._message = message
        self._name = chat_name(chat)
        self.known: dict[int, KnownLine] = {}
        """Messages that are in the plan, by the ids of their blocks."""
        self.whole: dict[int, KnownLine] = {}
        """Those that need not be built: they are blocks unchanged, or written as others are."""
        self.others: list[tuple[int, Block, object]] = []
        """The other blocks that are sent: their indices in the plan, and their places in the chat, or slots."""
        messages, stored = chat.messages, plan.chat.messages
        count = len(messages)
        self.changed: set[int] = set(range(max(count - NEWEST_MESSAGES, 0), count))
        """Messages that are in the plan in another form, and the newest ones."""
        # A block has the index of its message among those sent; the build may have added the user's.
        self.told_apart = tells_apart(chat, plan)
        self.written = WrittenLines(forms, known_texts.formless, ())
        """Messages that are not sent as they are stored, and not known from another plan."""
        if not self.told_apart:
            self.changed.update(range(count))
            self.others += [(index, block, place_of(block)) for index, block in enumerate(plan.blocks) if block.enabled]
            return
        written: list[tuple[int, KnownLine]] = []
        for index, block in enumerate(plan.blocks):
            key = id(block)
            known = known_texts.lines.get(key)
            if (
                known is None
                or known.block is not block
                or known.place >= count
                or known.line is not messages[known.place]
                or known.chat != self._name
                or not (known.whole or (known.form is not None and known.form is forms.get(known.kind)))
            ):
                place = place_of_block(block)
                if (
                    place is None
                    or place > count
                    or (place == count and (stored[count].data != message or "{" in message))
                ):
                    if block.enabled:
                        self.others.append((index, block, block.slot if place is None else place))
                    continue
                known = self._found_message(block, place)
            if known.place < count:
                self.known[key] = known
            if known.form is not None or (known.whole and stored[known.place].data == block.content):
                self.whole[key] = known
            elif block.enabled and known.kind is not None:
                written.append((index, known))
            else:
                self.changed.add(known.place)
                if block.enabled:
                    self.others.append((index, block, known.place))
        self.written = WrittenLines(forms, known_texts.formless, written)
        self.whole.update((id(line.block), line) for line in self.written.alike)
        built = [*self.written.single, *self.written.examples]
        self.others += [(number, line.block, line.place) for number, line in built]
        self.changed.update([line.place for _, line in built])

    def _found_message(self, block: Block, place: int) -> KnownLine:
        """Return the message of a block; the user's new one comes after the last."""
        kind: object = None
        if place == len(self.chat.messages):
            line, words, written = None, self._message, _MESSAGE
        else:
            line = self.chat.messages[place]
            words, written = line.data, (line.role, line.saying)
        whole = words == block.content
        if not whole and words and words in block.content:
            before, _, after = block.content.partition(words)
            kind = written, before, after
        return KnownLine(block, place, line, self._name, whole=whole, kind=kind)

    def learn_forms(self, contents: Sequence[str]) -> bool:
        """Learn the forms of messages from those that were traced; return False if some are left without one.

        Args:
            contents: The texts of all blocks of the plan, traced where they have to be.
        """
        return self.written.learn(contents, self._origins)

    def forget_forms(self) -> bool:
        """Leave messages that are written alike to a build of all; return True if there are some."""
        places = [line.place for line in self.whole.values() if not line.whole]
        self.whole = {key: line for key, line in self.whole.items() if line.whole}
        self.changed.update(places)
        return bool(places)

    def source_of(self, known: KnownLine, part: LinePart) -> TextSource:
        """Return the place of a message's words, or of its name, which RisuAI does not store with it."""
        if known.place == len(self.chat.messages):
            return TextSource("message", "", "" if part == "words" else "/name", self._message)
        message = self.chat.messages[known.place]
        pointer = f"/message/{known.place}"
        if part == "words":
            return TextSource("chat", self._name, f"{pointer}/data", message.data, message.role)
        return TextSource("chat", self._name, f"{pointer}/name", "")

    def _origins(self, known: KnownLine) -> tuple[Origin, Origin]:
        """Return both for a traced text."""
        return origin_of(self.source_of(known, "words")), origin_of(self.source_of(known, "name"))

    def kept(self, plan: RisuPlan, known: Iterable[int]) -> Sequence[int]:
        """Return the messages of a prompt, without those that are known, unchanged or left out.

        Returns all of them if the result may depend on their number.

        Args:
            plan: The plan.
            known: Ids of blocks whose texts are known.
        """
        count = len(self.chat.messages)
        if not self.told_apart or plan.memory_data or count <= 2 * SHORT_CHAT:
            return range(count)
        newest = range(count - SHORT_CHAT, count)
        places = [line.place for key in known if (line := self.known.get(key)) is not None]
        self.changed.difference_update([place for place in places if place < newest.start])
        return [*sorted(place for place in self.changed if place < newest.start), *newest]

    def has(self, block: Block) -> bool:
        """Return True if a block is an unchanged message of the chat, or the user's new message."""
        place = place_of_block(block) if self.told_apart else None
        if place == len(self.chat.messages):
            return id(block) in self.whole
        return place is not None and place < len(self.chat.messages) and self.chat.messages[place].data == block.content

    def of_block(self, block: Block) -> str:
        """Return the text of a block; for an unchanged message of the chat, with its place."""
        known = self.whole.get(id(block))
        if known is not None:
            if not known.text:
                words, form = self._text(known.place), known.form
                known.text = words if form is None else form.write(block.content, words, self._origins(known)[1])
            return known.text
        if type(block.content) is not str or not self.has(block):
            return block.content
        place = place_of_block(block)
        assert place is not None
        return self._text(place)

    def _text(self, place: int) -> str:
        if place == len(self.chat.messages):
            return traced_text(self._message, "message", "", "")
        return message_text(self.chat.messages[place], place, self._name)

    def unused(self, plan: RisuPlan, dropped: Iterable[Dropped]) -> Iterator[tuple[str, str]]:
        """Yield the messages that are not in a prompt, each with the reason.

        Args:
            plan: The plan.
            dropped: What the build left out.
        """
        used = {str(block.metadata.get("memo")) for block in plan.enabled_blocks}
        evicted = {str(block.metadata.get("memo")) for block in plan.blocks if not block.enabled}
        reasons = {each.message.memo: each.reason for each in dropped}
        chat = ChatCache().with_ids(self.chat)
        kept = {chat_id(each) for each in sent_messages(chat)[0]}
        for index, message in enumerate(chat.messages):
            memo = chat_id(message)
            if memo in used:
                continue
            if plan.stopped:
                reason = STOPPED
            elif memo not in kept:
                reason = "turned off in the chat" if message.raw.get("disabled") else "a later message cuts it off"
            elif memo in evicted:
                reason = "does not fit the token budget"
            else:
                reason = reasons.get(memo, "the prompt template has no place for it")
            yield message_text(self.chat.messages[index], index, self._name), reason


def place_of_block(block: Block) -> int | None:
    """Return the place of a block's message; None if it is not made from one."""
    source = block.metadata.get("source")
    if not is_mapping(source) or source.get("stage") != "chat" or source.get("kind") != "message":
        return None
    place = source.get("id")
    return int(place) if isinstance(place, str) and place.isdecimal() else None


def has_own_chat(context: RisuAIContext, built: RisuAIContext) -> bool:
    """Return True if hooks left the chat and the finished prompt alone.

    Args:
        context: The inputs.
        built: The same after hooks changed them.
    """
    return (context.hooks is None or context.hooks.only_before) and built.chat is context.chat


def tells_apart(chat: RisuChat, plan: RisuPlan) -> bool:
    """Return True if the number of a block's message is its place in the chat.

    Args:
        chat: The chat as the build saw it.
        plan: The plan.
    """
    count = len(chat.messages)
    return len(sent_messages(chat)[0]) == count and len(plan.chat.messages) in (count, count + 1)


def turn_inputs(context: RisuAIContext, plan: RisuPlan, chat: RisuChat) -> TurnInputs | None:
    """Return the inputs that a plan shares with the next one; None if its texts may have other sources.

    Args:
        context: The inputs that hooks left.
        plan: The plan.
        chat: The chat as the build saw it.
    """
    if plan.memory_data or not tells_apart(chat, plan):
        return None
    lore = [active.index for active in plan.lore_result.actives] if isinstance(plan.lore_result, LorebookResult) else ()
    return TurnInputs(context, lore, [chat.note], chat.messages, _words)


def _words(message: object) -> object:
    return (message.role, message.data) if isinstance(message, RisuMessage) else None


def place_of(block: Block, messages: Sequence[int] | None = None) -> object:
    """Return the place of a block, comparable between builds: that of its message, or its slot.

    Args:
        block: The block.
        messages: The places of the build's messages, if it did not have all.
    """
    place = place_of_block(block)
    if place is None:
        return block.slot
    if not messages:
        return place
    # The user's new message follows them.
    return messages[place] if place < len(messages) else messages[-1] + 1 + place - len(messages)


def chat_name(chat: RisuChat) -> str:
    """Name a chat."""
    return chat.name or chat.id or "chat"


def message_text(message: RisuMessage, index: int, chat: str) -> str:
    """Trace the text of a message to its place in a chat of that name."""
    return traced_text(message.data, "chat", chat, f"/message/{index}/data", message.role)
