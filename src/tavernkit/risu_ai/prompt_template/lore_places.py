"""Where active lore goes in a prompt."""

from __future__ import annotations

from collections.abc import Sequence

from tavernkit.risu_ai.js_replace import replace_first
from tavernkit.risu_ai.lorebook.result import ActiveLore, LoreInjection
from tavernkit.risu_ai.prompt_message import PromptMessage, explained, source_of
from tavernkit.values import FrozenJson, FrozenObject

DEPTH, REVERSE_DEPTH, BEFORE_DESCRIPTION = "depth", "reverse_depth", "before_desc"
AFTER_DESCRIPTION = ("after_desc", "personality", "scenario")
POINT_PREFIX = "pt_"
_POINT = "{{position::"


def lore_message(entry: ActiveLore, content: str) -> PromptMessage:
    """An entry as a message of its own."""
    source = source_of("lore", "lore", _reason(entry), name=entry.title or entry.source, **_account(entry))
    if entry.injected:
        source = with_lore(source, entry.injected)
    return PromptMessage(role=entry.role, content=content, source=source)


def with_lore(source: FrozenObject, entries: Sequence[ActiveLore]) -> FrozenObject:
    """The source of a text that has lore in it: says which entries, and why they are active."""
    if not entries:
        return source
    listed = ", ".join(f"{entry.title} ({_reason(entry)})" for entry in entries)
    accounts = [{**_account(entry), "name": entry.title, "reason": entry.reason} for entry in entries]
    return explained(source, f"with lore {listed}", entries=accounts)


def _reason(entry: ActiveLore) -> str:
    return f"{entry.reason}, from {entry.book}" if entry.book else entry.reason


def _account(entry: ActiveLore) -> dict[str, FrozenJson]:
    return {"id": str(entry.index), "book": entry.book}


def in_lorebook_slot(entry: ActiveLore) -> bool:
    """Whether it stands with the rest of the lore."""
    return not entry.pos and entry.inject is None


def at_end(entry: ActiveLore) -> bool:
    """Whether it stands behind everything."""
    return entry.pos == DEPTH and entry.depth == 0


def in_chat(entry: ActiveLore) -> bool:
    """Whether it stands between the messages of the chat."""
    return entry.pos == REVERSE_DEPTH or (entry.pos == DEPTH and entry.depth > 0)


class Positions:
    """Fills the places that cards have for lore: injections by location, and ``{{position::name}}``."""

    def __init__(self, lore: Sequence[ActiveLore] = ()) -> None:
        self._injected: dict[str, list[ActiveLore]] = {}
        self._points: dict[str, list[ActiveLore]] = {}
        for entry in lore:
            if entry.inject is not None:
                self._injected.setdefault(entry.inject.location, []).append(entry)
            if entry.pos.startswith(POINT_PREFIX):
                self._points.setdefault(entry.pos.removeprefix(POINT_PREFIX), []).append(entry)

    def fill(self, text: str, location: str) -> str:
        """Put the lore into a card's text; it is expanded together with the card."""
        for entry in self._injected.get(location, ()):
            if entry.inject is not None:
                text = _inject(entry.inject, text, entry.text)
        parts: list[str] = []
        at = 0
        while (start := text.find(_POINT, at)) >= 0:
            end = text.find("}}", start + len(_POINT))
            if end < 0:
                break
            name = text[start + len(_POINT) : end]
            parts += [text[at:start], "\n".join(entry.text for entry in self._points.get(name, ()))]
            at = end + 2
        return "".join([*parts, text[at:]]) if parts else text

    def lore_in(self, text: str, location: str) -> list[ActiveLore]:
        """The entries that :meth:`fill` puts into a text."""
        pointed = (
            entry for name, entries in self._points.items() if f"{_POINT}{name}}}}}" in text for entry in entries
        )
        return [*self._injected.get(location, ()), *pointed]


def _inject(injection: LoreInjection, text: str, lore: str) -> str:
    if injection.operation == "append":
        return f"{text} {lore}"
    if injection.operation == "prepend":
        return f"{lore} {text}"
    return replace_first(text, injection.param, lore)
