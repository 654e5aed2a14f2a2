"""Lore that stays in the chat where it fired (``lore="freeze"``)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from tavernkit._dataclass import dataclass
from tavernkit._values import FrozenJson, FrozenObject, is_mapping, is_sequence
from tavernkit.risu_ai._chat.chat_log import chat_id
from tavernkit.risu_ai._chat.prompt_message import FROZEN_LORE, PromptMessage, is_frozen, source_of
from tavernkit.risu_ai._lorebook.result import ActiveLore, LorebookResult
from tavernkit.risu_ai._objects import RisuMessage
from tavernkit.risu_ai._prompt_template.lore_places import (
    AFTER_DESCRIPTION,
    BEFORE_DESCRIPTION,
    at_end,
    in_chat,
    in_lorebook_slot,
)

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
    """Return the place of an entry in words; None for places that it should not leave."""
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
