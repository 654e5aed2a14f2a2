"""What each card of a template prints, and the list of messages it prints into: the push rule, cache points, depths."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, MutableSequence, Sequence
from typing import TypeVar

from tavernkit._dataclass import dataclass
from tavernkit._macros import size_of
from tavernkit._text.js_values import trim
from tavernkit._text.traced import join
from tavernkit._values import FrozenObject
from tavernkit.errors import Warn, log_warning
from tavernkit.prompt._block import Omission
from tavernkit.risu_ai._chat.prompt_message import (
    PromptMessage,
    changing,
    explained,
    parse_chat_ml,
    source_of,
    title_of,
)
from tavernkit.risu_ai._js import replace_all, replace_first
from tavernkit.risu_ai._limits import MAX_CACHE_WORK, MAX_FILLED_TEXT, MAX_PRINTED_MESSAGES
from tavernkit.risu_ai._prompt_template.cards import (
    END,
    EVERYTHING,
    ROLES,
    AuthorNoteCard,
    CacheCard,
    ChatCard,
    ChatMLCard,
    PlainCard,
    PromptSettings,
    SlotCard,
    TemplateCard,
)
from tavernkit.risu_ai._prompt_template.lore_places import Positions, with_lore
from tavernkit.risu_ai._prompt_template.slots import CharacterFields, Slots, Texts
from tavernkit.risu_ai._requests.reformat import SLOT
from tavernkit.risu_ai.errors import PromptTemplateError

T = TypeVar("T")

AUTOMATIC_CACHE_POINTS = 3


def merges_system(model: str) -> bool:
    """True if neighbouring system messages are joined for a model."""
    return model.startswith(("gpt", "claude")) or model in {"openrouter", "reverse_proxy"}


class Printer:
    """Collects messages. Joining edits the message that is already there, wherever else it is shown.

    A card that is printed again joins a message with itself, which doubles it: what would become too long is left out.
    """

    def __init__(self, model: str, warn: Warn = log_warning, keep: Callable[[int], bool] = lambda _size: True) -> None:
        self._messages: list[PromptMessage] = []
        self._merges = merges_system(model)
        self._warn, self._keep = warn, keep
        self._warned = False
        self._joined: list[str] = []  # what is still to be added to the last message, so that it is copied once
        self._merged: list[FrozenObject] = []
        self._length = 0
        self._cache_left = MAX_CACHE_WORK

    @property
    def messages(self) -> list[PromptMessage]:
        """What is printed."""
        self._finish_last()
        return self._messages

    def push(self, messages: Iterable[PromptMessage], place: str = "") -> None:
        """Print messages; blank ones are left out. ``place`` names the place in explanations."""
        for message in messages:
            last = self._messages[-1] if self._messages else None
            if message is last:
                self._finish_last()
            if message.blank:
                continue
            if not self._keep(size_of(message.content)):  # a message that is shown again is sent again
                self._leave_out("the template prints more than the build may keep")
                continue
            if last is not None and self._merges and _joinable(last, message):
                self._join(message, place)
            else:
                self._append(message, place)

    def _join(self, message: PromptMessage, place: str) -> None:
        length = self._length + 2 + len(message.content)
        if length > MAX_FILLED_TEXT:
            self._leave_out(f"a message of the template would have more than {MAX_FILLED_TEXT} characters")
            return
        message.printed += (place,)
        self._length = length
        self._joined += ["\n\n", message.content]
        self._merged.append(explained(message.source, place, place=place) if place else message.source)

    def _append(self, message: PromptMessage, place: str) -> None:
        if len(self._messages) >= MAX_PRINTED_MESSAGES:
            self._leave_out(f"the template prints more than {MAX_PRINTED_MESSAGES} messages")
            return
        message.printed += (place,)
        self._finish_last()
        self._messages.append(message)
        self._length = len(message.content)

    def _finish_last(self) -> None:
        if self._joined:
            last = self._messages[-1]
            last.content = join("", [last.content, *self._joined])
            last.merged += tuple(self._merged)
            self._joined, self._merged = [], []

    def _leave_out(self, why: str) -> None:
        if not self._warned:
            self._warned = True
            self._warn(f"{why}: the rest is left out")

    def mark_cache(self, depth: float, role: str) -> None:
        """Put a cache point on the latest messages of a role."""
        for message in reversed(self._messages):
            if depth <= 0 or self._cache_left <= 0:
                break
            self._cache_left -= 1
            if role == "all" or role == message.role:
                message.cache_point = True
                depth -= 1
        if self._cache_left == 0:
            self._cache_left = -1
            self._warn("the cache cards of the template take too long: the rest of them mark nothing")


def _joinable(last: PromptMessage, message: PromptMessage) -> bool:
    return last.role == message.role == "system" and last.memo == message.memo and last.name == message.name


def systemize(messages: Iterable[PromptMessage]) -> None:
    """Turn chat messages into system messages that name the speaker; the messages themselves are changed."""
    for message in messages:
        if message.role not in {"user", "assistant"}:
            continue
        if message.name is not None and message.name.startswith("example_"):
            message.content = message.name + ": " + message.content
        elif "nameAdded" not in message.attr:
            message.content = message.role + ": " + message.content
        message.role, message.memo, message.name = "system", None, None


def splice(items: MutableSequence[T], index: float, item: T) -> None:
    """Insert as JavaScript's ``splice`` does: a negative index counts from the end, no number is the start."""
    if index != index:
        index = 0
    place = max(len(items) + index, 0) if index < 0 else min(index, len(items))
    items.insert(int(place), item)


ORIGINAL = "{{original}}"
OWN_ASSET_COMMAND = "{{//@customimageinstruction}}"
"""A comment with which a card says that it brings its own image instruction."""

REPLACED_NOTE = "the character's own text instead of the global note"

UTILITY_TEMPLATE: Sequence[TemplateCard] = (
    PlainCard(type2="main"),
    SlotCard(type="description"),
    SlotCard(type="lorebook"),
    ChatCard(),
    PlainCard(type2="globalNote"),
    SlotCard(type="postEverything"),
)
"""The template of utility bots, whatever the preset has."""

END_CARD = SlotCard(type="postEverything")
"""Added after a template that has no such card."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CardWriter:
    """Writes the cards of one build. ``switches`` are the preset's while its own template is in use, else all off."""

    texts: Texts
    positions: Positions
    slots: Slots
    fields: CharacterFields
    switches: PromptSettings
    jailbreak_toggle: bool
    chain_of_thought: bool
    asset_command: str | None
    automatic_cache_point: bool
    warn: Warn
    strict: bool

    def counted(self, card: TemplateCard) -> Iterable[PromptMessage]:
        """The messages a card is counted with before the chat is there; memory, cache and chat cards cost nothing."""
        if isinstance(card, PlainCard):
            return self._plain(card)
        if isinstance(card, ChatMLCard):
            return self._chat_ml(card)
        if isinstance(card, AuthorNoteCard):
            return self._author_note(card)
        if isinstance(card, SlotCard) and card.type != "memory":
            return self._slot(card)
        return ()

    def print(self, cards: Sequence[TemplateCard], printer: Printer) -> list[Omission]:
        """Print a template, and report which of its texts are not in the prompt, and why."""
        left_out: list[Omission] = []
        automatic = self.automatic_cache_point and not any(isinstance(card, CacheCard) for card in cards)
        only_chat = sum(isinstance(card, ChatCard) for card in cards) == 1
        for number, card in enumerate(cards, start=1):
            place = _place(card, number, cards)
            if isinstance(card, ChatCard):
                printer.push(self._chat(card), "" if only_chat else place)
                if automatic:
                    printer.mark_cache(AUTOMATIC_CACHE_POINTS, "user")
            elif isinstance(card, CacheCard):
                printer.mark_cache(card.depth, card.role)
            elif isinstance(card, SlotCard) and card.type == "memory":
                printer.push(self._memory(card), place)
            else:
                messages = list(self.counted(card))
                printer.push(messages, place)
                if isinstance(card, (PlainCard, ChatMLCard)) and all(message.blank for message in messages):
                    left_out.append(Omission("prompt", place, self._why_silent(card), f"{_title(card)}, {place}"))
        return left_out

    def _why_silent(self, card: PlainCard | ChatMLCard) -> str:
        if card.type == "jailbreak" and not self.jailbreak_toggle:
            return "the jailbreak toggle is off"
        if card.type == "cot" and not self.chain_of_thought:
            return "chain of thought is switched off"
        return "nothing is left of it when its CBS is expanded" if trim(card.text) else "the card is empty"

    def _plain(self, card: PlainCard) -> Iterable[PromptMessage]:
        if (card.type == "jailbreak" and not self.jailbreak_toggle) or (
            card.type == "cot" and not self.chain_of_thought
        ):
            return
        content, source = self.positions.fill(card.text, card.location), changing(_source(card), card.text)
        lore = self.positions.lore_in(card.text, card.location)
        if card.type2 == "globalNote":
            if self.fields.replace_global_note:
                note = self.positions.fill(self.fields.replace_global_note, card.location)
                content = replace_all(note, ORIGINAL, content)
                source = {**source, "reason": REPLACED_NOTE}
            # RisuAI looks into the card only, not into the character's text that replaces it.
            if self.asset_command is not None and OWN_ASSET_COMMAND not in card.text:
                content = content + "\n" + self.asset_command
        role = ROLES.get(card.role)
        if role is None:
            self.warn(f"the {_title(card)} has the role {card.role!r}, which RisuAI's cards do not have")
        yield PromptMessage(role=role, content=self.texts(content, role=card.role), source=with_lore(source, lore))

    def _chat_ml(self, card: ChatMLCard) -> Iterable[PromptMessage]:
        source = changing(_source(card), card.text)
        found = parse_chat_ml(card.text, lambda text: self.texts.as_speaker(text, None), source)
        if found is not None:
            return found
        problem = f"the {_title(card)} does not start with <|im_start|>"
        if self.strict:
            raise PromptTemplateError(problem)
        self.warn(f"{problem}; RisuAI throws here, the card is left out")
        return ()

    def _slot(self, card: SlotCard) -> Iterable[PromptMessage]:
        if card.type == "lorebook":
            return self.slots.lorebook  # RisuAI ignores the inner format of this card
        if card.type == "postEverything":
            return self._post_everything()
        slot = self.slots.persona if card.type == "persona" else self.slots.description
        return self._framed(slot, card.inner_format, card.type)

    def _author_note(self, card: AuthorNoteCard) -> Iterable[PromptMessage]:
        return self._framed(self.slots.author_note, card.inner_format, card.type, card.default_text)

    def _memory(self, card: SlotCard) -> Iterable[PromptMessage]:
        return self._framed(self.slots.memory, card.inner_format, None)

    def _post_everything(self) -> Iterable[PromptMessage]:
        yield from self.slots.post_everything
        if self.switches.post_end_inner_format:
            source = source_of("template", "post end inner format", "the template's text after everything")
            # RisuAI does not expand it.
            yield PromptMessage(role="system", content=self.switches.post_end_inner_format, source=source)

    def _framed(
        self, slot: Sequence[PromptMessage], inner_format: str, location: str | None, default: str = ""
    ) -> Iterable[PromptMessage]:
        """Copies of a slot's messages, inside the card's inner format if it has one."""
        for message in slot:
            copy = message.copy()
            copy.content = copy.content or default
            if inner_format:
                frame = inner_format
                if location is not None:
                    frame = self.positions.fill(inner_format, location)
                    copy.source = with_lore(copy.source, self.positions.lore_in(inner_format, location))
                # RisuAI fills the first slot only, and what is inserted is not expanded again.
                copy.content = replace_first(self.texts(frame), SLOT, copy.content)
            yield copy

    def _chat(self, card: ChatCard) -> Sequence[PromptMessage]:
        chats = self.slots.chats
        start, end = card.range_start, len(chats) if card.range_end == END else card.range_end
        if start == EVERYTHING:
            start, end = 0, len(chats)
        if start < 0:
            start = max(len(chats) + start, 0)
        if end < 0:
            end = max(len(chats) + end, 0)
        if start >= end:
            return ()
        shown = chats[_index(start, len(chats)) : _index(end, len(chats))]
        if self.switches.send_chat_as_system and not card.as_original_on_system:
            systemize(shown)  # another chat card shows the changed messages, too
        return shown


def _index(number: float, length: int) -> int:
    """Return where JavaScript would cut a list."""
    return 0 if math.isnan(number) else int(min(number, length))


def _title(card: PlainCard | ChatMLCard) -> str:
    title = title_of(_source(card))
    return title if card.name or not card.text else f"{title} ({card.text!r:.40})"


def _source(card: PlainCard | ChatMLCard) -> FrozenObject:
    kind = f"{card.type2} prompt" if isinstance(card, PlainCard) and card.type == "plain" else f"{card.type} card"
    return source_of("template", kind, _REASONS.get(card.type, "a text of the prompt template"), name=card.name)


_REASONS = {"jailbreak": "the jailbreak toggle is on", "cot": "chain of thought is switched on"}


def _place(card: TemplateCard, number: int, template: Sequence[TemplateCard]) -> str:
    if card is END_CARD:
        return "after the template"
    return f"card {number} of the utility bot template" if template is UTILITY_TEMPLATE else f"card {number}"


def active_template(
    template: Sequence[TemplateCard] | None, fields: CharacterFields, switches: PromptSettings
) -> Sequence[TemplateCard] | None:
    """The template to print: the preset's, a utility bot's own, or none. ``postEverything`` is always in it."""
    if fields.utility_bot and not switches.util_override:
        template = UTILITY_TEMPLATE
    if template is None or any(card.type == "postEverything" for card in template):
        return template
    return (*template, END_CARD)
