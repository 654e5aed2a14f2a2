"""Prompts that keep a provider's cache: lore that stays where it fired, and changing texts moved to the end.

These are ``lore="freeze"`` and ``volatile="tail"``: opt-in changes to RisuAI's order.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tavernkit._dataclass import dataclass
from tavernkit._values import FrozenJson, FrozenObject, is_mapping, is_sequence
from tavernkit.cache._profiles import CacheProfile, find_profile, planned_marks
from tavernkit.cache._volatile import changes_by_itself
from tavernkit.prompt._block import Moved
from tavernkit.prompt._context import CACHE
from tavernkit.risu_ai._chat.chat_log import chat_id
from tavernkit.risu_ai._chat.prompt_message import FROZEN_LORE, PromptMessage, is_frozen, source_of, title_of
from tavernkit.risu_ai._context import RisuAIContext
from tavernkit.risu_ai._lorebook.result import ActiveLore, LorebookResult
from tavernkit.risu_ai._objects import RisuMessage
from tavernkit.risu_ai._prompt_template.cards import (
    AuthorNoteCard,
    CacheCard,
    ChatCard,
    ChatMLCard,
    PlainCard,
    SlotCard,
    TemplateCard,
)
from tavernkit.risu_ai._prompt_template.lore_places import (
    AFTER_DESCRIPTION,
    BEFORE_DESCRIPTION,
    at_end,
    in_chat,
    in_lorebook_slot,
)

if TYPE_CHECKING:
    from tavernkit.risu_ai._state import RisuState

CHAT_KEY = "tavernkit_cache"
"""The key in a chat for the state of cache strategies."""
MAX_FROZEN = 1000
"""The maximum number of entries in a chat; the newest count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FrozenLore:
    """A lorebook entry that became a message of the chat."""

    after: str
    """The id of the message that it follows."""
    line: str
    """A digest of that message's text: if the message was changed or deleted, the entry may fire again."""
    id: str
    title: str
    text: str
    role: str = "system"
    cause: str = ""
    reference: str = ""
    """Where RisuAI would have put it."""

    def to_json(self) -> FrozenObject:
        """Return it as stored."""
        return {name: getattr(self, name) for name in _FIELDS}

    def message(self) -> PromptMessage:
        """Return it as a message of the prompt. Its memo keeps it apart from its neighbours."""
        entry = {"id": self.id, "name": self.title, "cause": self.cause}
        reason = f"{self.cause or 'fired'}, after the message that activated it, where it stays"
        source = source_of(
            "chat", FROZEN_LORE, reason, name=self.title, title=f"lore {self.title}", id=self.id, entries=[entry]
        )
        return PromptMessage(role=self.role, content=self.text, memo=f"lore {self.id}", source=source)


_FIELDS = ("after", "line", "id", "title", "text", "role", "cause", "reference")


def read_frozen(stored: object, messages: Sequence[RisuMessage]) -> list[FrozenLore]:
    """Read the entries that still have their place in the chat, in order; unreadable ones are ignored.

    Args:
        stored: The chat's value of ``CHAT_KEY``.
        messages: The chat.
    """
    items = stored.get("lore") if is_mapping(stored) else None
    places = {chat_id(message): place for place, message in enumerate(messages)}
    found: dict[tuple[str, str], FrozenLore] = {}
    for item in (items if is_sequence(items) else ())[-MAX_FROZEN:]:
        lore = _read(item) if is_mapping(item) else None
        place = places.get(lore.after) if lore is not None else None
        if lore is not None and place is not None and digest(messages[place].data) == lore.line:
            found[lore.after, lore.id] = lore
    return sorted(found.values(), key=lambda lore: places[lore.after])


def digest(text: str) -> str:
    """Return a short digest of a text."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()


def split_lore(result: LorebookResult) -> tuple[list[ActiveLore], list[tuple[ActiveLore, str, str]]]:
    """Split lore into entries that stay in place and those that come and go, the latter with id and place.

    Entries that are always active stay, as do those that go into other texts, or after everything.
    """
    stays: list[ActiveLore] = []
    fired: list[tuple[ActiveLore, str, str]] = []
    for lore in result.actives:
        place = _place(lore)
        entry = result.entries[lore.index] if 0 <= lore.index < len(result.entries) else None
        if not place or entry is None or entry.always_active:
            stays.append(lore)
        else:
            fired.append((lore, entry.id or digest(f"{entry.book}\n{entry.key}\n{entry.content}"), place))
    return stays, fired


def _place(lore: ActiveLore) -> str:
    """Return the place of an entry in words; empty for places that it should not leave."""
    if lore.inject is not None or at_end(lore):
        return ""
    if in_lorebook_slot(lore):
        return "with the lorebook"
    if in_chat(lore):
        return f"in the chat at {lore.pos.replace('_', ' ')} {lore.depth:g}"
    if lore.pos == BEFORE_DESCRIPTION:
        return "before the description"
    return "after the description" if lore.pos in AFTER_DESCRIPTION else ""


def insert_frozen(history: list[PromptMessage], frozen: Sequence[FrozenLore]) -> None:
    """Put each entry after its message; if the message is not sent, the entry is not either."""
    by_message: dict[str, list[FrozenLore]] = {}
    for lore in frozen:
        by_message.setdefault(lore.after, []).append(lore)
    history[:] = [
        each
        for message in history
        for each in (message, *(lore.message() for lore in by_message.get(message.memo or "", ())))
    ]


def stored_lore(frozen: Sequence[FrozenLore], sent: Sequence[PromptMessage]) -> FrozenJson:
    """Return what the next build must know: the entries in the prompt.

    Args:
        frozen: All entries of this build.
        sent: The messages of the chat that are in the prompt.
    """
    behind: set[tuple[str, str]] = set()
    message = ""
    for each in sent:
        if is_frozen(each):
            behind.add((message, str(each.source.get("id"))))
        else:
            message = each.memo or ""
    return {"version": 1, "lore": [lore.to_json() for lore in frozen if (lore.after, lore.id) in behind]}


def _read(item: Mapping[str, object]) -> FrozenLore | None:
    texts = {name: item.get(name) for name in _FIELDS}
    if not all(isinstance(texts[name], str) and texts[name] for name in ("after", "line", "id", "text")):
        return None
    given = {name: text for name, text in texts.items() if isinstance(text, str)}
    role = given.get("role")
    known = role if role in ("user", "assistant", "system") else "system"
    return FrozenLore(**{**given, "title": given.get("title") or given["id"], "role": known})


BEHIND = "after the chat"
MOVES = "every message would move it"
CHANGES = "a function of CBS makes it another text in every prompt"
NOTE = "the note changes during the chat"
REWRITTEN = "it changes during the chat"
COMES_AND_GOES = "lore that comes and goes would change the head of the prompt"


def freeze_lore(state: RisuState, result: LorebookResult) -> Sequence[ActiveLore]:
    """Turn lore that fired by key into messages of the chat, and return the rest, which stays in place.

    An entry whose message is still in the prompt is not repeated. Reads ``chat``, writes ``frozen_lore`` and
    ``active_lore``.
    """
    if state.uses_memory and state.context.memory is not None:
        state.warn('lore="freeze" does nothing while the character uses long-term memory, which rewrites the chat')
        return result.actives
    sent, _ = state.sent
    frozen = read_frozen(state.chat.raw.get(CHAT_KEY), sent)
    state.frozen_lore = frozen
    if not sent:
        return result.actives
    newest, shown = sent[-1], _shown(state, [chat_id(message) for message in sent])
    present = {lore.id for lore in frozen if lore.after in shown}
    stays, fired = split_lore(result)
    for lore, identity, place in fired:
        text = "" if identity in present else state.texts(lore.text)
        if text:
            present.add(identity)
            frozen.append(
                FrozenLore(
                    after=chat_id(newest) or "",
                    line=digest(newest.data),
                    id=identity,
                    title=lore.title or lore.source,
                    text=text,
                    role=lore.role,
                    cause=lore.reason,
                    reference=place,
                )
            )
    state.active_lore = frozenset(identity for _, identity, _ in fired)
    return stays


def _shown(state: RisuState, ids: Sequence[str | None]) -> set[str]:
    """Return the messages from the first one of the previous prompt on."""
    first = state.chat.raw.get("lastMemory")
    start = ids.index(first) if isinstance(first, str) and first in ids else 0
    return {each for each in ids[start:] if each}


def say_again(state: RisuState, messages: Sequence[PromptMessage]) -> None:
    """Record that lore now follows the newest message, because its own message is no longer in the prompt.

    Args:
        state: The build.
        messages: The lore.
    """
    sent, _ = state.sent
    known = {lore.id: lore for lore in state.frozen_lore}
    for message in messages:
        lore = known[str(message.source.get("id"))]
        state.frozen_lore.append(replace(lore, after=chat_id(sent[-1]) or "", line=digest(sent[-1].data)))


def moved_lore(state: RisuState, sent: Iterable[PromptMessage]) -> list[Moved]:
    """Return the report of lore that is in the prompt as messages of the chat.

    Args:
        state: The build.
        sent: The messages of the prompt.
    """
    if not state.frozen_lore:
        return []
    frozen = {lore.id: lore for lore in state.frozen_lore}
    numbers = {chat_id(message): number for number, message in enumerate(state.sent[0])}
    found: list[Moved] = []
    for message in sent:
        lore = frozen.get(str(message.source.get("id"))) if is_frozen(message) else None
        if lore is not None:
            where, tokens = f"after message #{numbers.get(lore.after, 0)}", state.counter.message(message)
            found.append(Moved("lore", lore.id, lore.title, lore.reference, where, COMES_AND_GOES, tokens))
    return found


def tail_template(state: RisuState) -> Sequence[TemplateCard] | None:
    """Return the template with cards that move or change after the last chat card, and report them."""
    template = state.template
    chats = [place for place, card in enumerate(template or ()) if isinstance(card, ChatCard)]
    if template is None or not chats:
        return template
    moved: list[TemplateCard] = []
    for place, card in enumerate(template[: chats[-1]]):
        reason = _why_card(state, card, between=place > chats[0])
        if reason:
            moved.append(card)
            where = "inside the chat" if place > chats[0] else "before the chat"
            _report(state, card.type, getattr(card, "name", "") or f"{card.type} card", where, reason)
    gone = {id(card) for card in moved}
    head = [card for card in template[: chats[-1] + 1] if id(card) not in gone]
    return (*head, *moved, *template[chats[-1] + 1 :])


def tail_order(state: RisuState, order: Sequence[str]) -> list[str]:
    """Return ``formatingOrder`` with changing slots after the chat, and report them."""
    names = list(order)
    last = max((names.index(name) for name in ("chats", "lastChat") if name in names), default=-1)
    moved: list[str] = []
    for name in names[: max(last, 0)]:
        slot = state.slots.named(name) or ()
        reason = NOTE if name == "authorNote" else CHANGES if _slot_changes(state, name) else ""
        if reason and slot:
            moved.append(name)
            _report(state, name, title_of(slot[0].source), "before the chat", reason, slot)
    head = [name for name in names[: last + 1] if name not in moved]
    return [*head, *moved, *names[last + 1 :]]


def report_depth(state: RisuState, message: PromptMessage, where: str) -> None:
    """Report that a text from a depth was moved to after the chat.

    Args:
        state: The build.
        message: The message.
        where: Where RisuAI puts it.
    """
    source = message.source
    _report(state, str(source.get("kind")), title_of(source), where, MOVES, [message], str(source.get("id") or ""))


def _why_card(state: RisuState, card: TemplateCard, *, between: bool) -> str:
    """Return why a card should be after the chat; empty if it need not."""
    if isinstance(card, (ChatCard, CacheCard)):
        return ""
    if between:
        return MOVES
    if isinstance(card, AuthorNoteCard):
        return NOTE if state.slots.author_note else ""
    if isinstance(card, SlotCard) and card.type == "memory":
        return REWRITTEN if state.slots.memory else ""
    text = card.text if isinstance(card, (PlainCard, ChatMLCard)) else getattr(card, "inner_format", "")
    if changes_by_itself(text) or (isinstance(card, SlotCard) and _slot_changes(state, card.type)):
        return CHANGES
    return ""


def _slot_changes(state: RisuState, name: str) -> bool:
    """Return True if the text of a slot changes by itself."""
    character, preset, settings = state.character, state.preset, state.context.active_settings
    lore = (entry.text for entry in state.lore if in_lorebook_slot(entry))
    persona = state.texts.context.persona
    texts = {
        "description": (character.description, character.personality, character.scenario),
        "lorebook": tuple(lore),
        "persona": (settings.persona_prompt, persona.prompt if persona is not None else ""),
        "main": (preset.main_prompt, state.fields.system_prompt, settings.additional_prompt),
        "jailbreak": (preset.jailbreak,),
        "globalNote": (preset.global_note, state.fields.replace_global_note),
    }
    return any(changes_by_itself(text or "") for text in texts.get(name.removesuffix("Prompt"), ()))


def _report(
    state: RisuState,
    kind: str,
    name: str,
    reference: str,
    reason: str,
    messages: Sequence[PromptMessage] = (),
    identifier: str = "",
) -> None:
    tokens = state.counter.messages(messages) if messages else None
    state.moved.append(Moved(kind, identifier or kind, name, reference, BEHIND, reason, tokens))


def cache_marks(context: RisuAIContext) -> dict[str, CacheProfile]:
    """Return the cache marks of requests, by dialect."""
    return planned_marks(find_profile(context.cache_profile), chosen=True) if context.strategy == CACHE else {}
