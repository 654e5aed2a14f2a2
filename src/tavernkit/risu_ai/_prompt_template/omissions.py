"""What a prompt could have shown and does not, because nothing prints it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from tavernkit.prompt._block import Omission
from tavernkit.risu_ai._budget.trimming import Dropped, omissions_of
from tavernkit.risu_ai._lorebook.result import ActiveLore
from tavernkit.risu_ai._prompt_template.cards import AuthorNoteCard, ChatMLCard, PlainCard, SlotCard, TemplateCard
from tavernkit.risu_ai._prompt_template.lore_places import DEPTH, POINT_PREFIX, in_lorebook_slot, points_in
from tavernkit.risu_ai._prompt_template.slots import ORDER_NAMES, Slots

if TYPE_CHECKING:
    from tavernkit.risu_ai._state import RisuState

_CARDS = (("description", "description"), ("persona", "persona"), ("authornote", "author_note"), ("chat", "chats"))


def slot_omissions(slots: Slots, template: Sequence[TemplateCard] | None, order: Sequence[str]) -> Iterator[Omission]:
    """Slots that have a text and no place in the template or the order."""
    if template is None:
        for name, attribute in ORDER_NAMES.items():
            if name not in order and name != "postEverything" and _filled(slots, attribute):
                yield Omission("prompt", name, f"formatingOrder does not list {name}")
        return
    types = {card.type for card in template}
    for kind, attribute in _CARDS:
        if kind not in types and _filled(slots, attribute):
            yield Omission("prompt", kind, f"the prompt template has no {kind} card")
    if "chat" in types:
        hidden = (message for message in slots.chats if not message.printed and not message.blank)
        yield from omissions_of([Dropped(message, None, "no chat card of the template shows it") for message in hidden])
    if _filled(slots, "last_chat"):
        yield Omission("prompt", "start and historyend", "with a prompt template RisuAI prints no such trigger texts")


def prompt_omissions(state: RisuState) -> Iterator[Omission]:
    """Texts that authors and users may expect in the prompt, and that RisuAI does not look at."""
    preset, persona = state.preset, state.texts.context.persona
    if state.template is not None and state.fields.system_prompt:
        yield Omission("prompt", "system prompt", "with a prompt template the character's system prompt is not used")
    if state.template is None and preset.main_prompt is None:
        yield Omission("prompt", "main prompt", "the preset states none: RisuAI's own text is not part of this library")
    if state.template is None and preset.jailbreak and not state.context.settings.jailbreak_toggle:
        yield Omission("prompt", "jailbreak", "the jailbreak toggle is off")
    if preset.prompt_settings.assistant_prefill:
        yield Omission(
            "prompt", "assistant prefill", "RisuAI stores it and does not send it: use a last card with role bot"
        )
    if persona is not None and persona.prompt and not state.context.persona_prompt:
        reason = "the prompt of a bound persona is used only while there is a persona prompt in the settings"
        yield Omission("prompt", "persona", reason, persona.name)
    sent, cut = state.sent
    disabled = len(state.chat.messages) - len(sent)
    if disabled:
        yield Omission("history", "disabled", "disabled in the chat", f"{disabled} messages")
    if cut and not state.in_group:
        yield Omission("history", "greeting", "a message of the chat disables everything before it", "greeting")


def lore_omissions(lore: Sequence[ActiveLore], template: Sequence[TemplateCard] | None) -> Iterator[Omission]:
    """Active lore whose place is not in the template. Without a template only the plain places exist."""
    cards = template or ()
    types = {card.type for card in cards}
    locations = _locations(cards)
    points = {name for card in cards for text in _texts(card) for name in points_in(text)}
    for entry in lore:
        reason = _why_not(entry, types, locations, points, templated=template is not None)
        if reason is not None:
            yield Omission("lore_entry", str(entry.index), f"active, but {reason}", entry.title, entry.tokens)


def _why_not(
    entry: ActiveLore,
    types: Collection[str],
    locations: Collection[str],
    points: Collection[str],
    *,
    templated: bool,
) -> str | None:
    if entry.inject is not None and not entry.pos:
        if entry.inject.location in locations:
            return None
        return f"no card takes what is injected at {entry.inject.location!r}"
    if in_lorebook_slot(entry) and templated and "lorebook" not in types:
        return "the prompt template has no lorebook card"
    if entry.pos == DEPTH and entry.depth < 0:
        return f"there is no depth {entry.depth:g}"
    if entry.pos.startswith(POINT_PREFIX):
        point = entry.pos.removeprefix(POINT_PREFIX)
        if point not in points:
            return f"no card has {{{{position::{point}}}}}"
    return None


def _locations(cards: Sequence[TemplateCard]) -> set[str]:
    found: set[str] = set()
    for card in cards:
        if isinstance(card, PlainCard):
            found.add(card.location)
        elif isinstance(card, (SlotCard, AuthorNoteCard)) and card.inner_format:
            found.add(card.type)
    return found


def _texts(card: TemplateCard) -> tuple[str, ...]:
    if isinstance(card, (PlainCard, ChatMLCard)):
        return (card.text,)
    return (card.inner_format,) if isinstance(card, (SlotCard, AuthorNoteCard)) else ()


def _filled(slots: Slots, attribute: str) -> bool:
    return any(not message.blank for message in getattr(slots, attribute))
