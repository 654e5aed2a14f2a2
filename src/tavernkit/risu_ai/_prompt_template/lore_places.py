"""Where active lore goes in a prompt."""

from __future__ import annotations

from collections.abc import Sequence

from tavernkit._text.traced import join
from tavernkit._values import FrozenJson, FrozenObject
from tavernkit.errors import Warn, log_warning
from tavernkit.risu_ai._chat.prompt_message import PromptMessage, changing, explained, source_of
from tavernkit.risu_ai._limits import MAX_FILLED_TEXT
from tavernkit.risu_ai._lorebook.activation import POINT_PREFIX
from tavernkit.risu_ai._lorebook.result import ActiveLore, InjectedText

DEPTH, REVERSE_DEPTH, BEFORE_DESCRIPTION = "depth", "reverse_depth", "before_desc"
AFTER_DESCRIPTION = ("after_desc", "personality", "scenario")
_POINT = "{{position::"


def lore_message(entry: ActiveLore, content: str) -> PromptMessage:
    """An entry as a message of its own."""
    source = source_of("lore", "lore", _reason(entry), name=entry.title or entry.source, **_account(entry))
    source = changing(source, entry.text)
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
    """True if it goes with the rest of the lore."""
    return not entry.pos and entry.inject is None


def at_end(entry: ActiveLore) -> bool:
    """True if it goes at the very end. RisuAI's depth counts from the start of the chat, but 0 is the end."""
    return entry.pos == DEPTH and entry.depth == 0


def in_chat(entry: ActiveLore) -> bool:
    """True if it goes between the messages of the chat."""
    return entry.pos == REVERSE_DEPTH or (entry.pos == DEPTH and entry.depth > 0)


class Positions:
    """Fills the places that cards have for lore: injections by location, and ``{{position::name}}``."""

    def __init__(self, lore: Sequence[ActiveLore] = (), warn: Warn = log_warning) -> None:
        self._warn = warn
        self._injected: dict[str, list[ActiveLore]] = {}
        self._points: dict[str, list[ActiveLore]] = {}
        for entry in lore:
            if entry.inject is not None:
                self._injected.setdefault(entry.inject.location, []).append(entry)
            if entry.pos.startswith(POINT_PREFIX):  # one that is injected keeps its place: RisuAI shows it twice
                self._points.setdefault(entry.pos.removeprefix(POINT_PREFIX), []).append(entry)

    def fill(self, text: str, location: str) -> str:
        """Put the lore into a card's text; it is expanded together with the card."""
        injected = self._injected.get(location)
        if injected:
            target = InjectedText(text, location, self._warn)
            for entry in injected:
                if entry.inject is not None:
                    target.put(entry.text, entry.inject)
            text = target.text
        pieces = _split(text)
        if len(pieces) == 1:
            return text
        lore = {name: join("\n", [entry.text for entry in self._points.get(name, ())]) for name in {*pieces[1::2]}}
        if sum(len(lore[name]) for name in pieces[1::2]) > MAX_FILLED_TEXT:
            where = f"the card {location!r}" if location else "a card"
            self._warn(f"{where} names so many places that its lore would have more than {MAX_FILLED_TEXT} characters")
            lore = dict.fromkeys(lore, "")
        pieces[1::2] = [lore[name] for name in pieces[1::2]]
        return join("", pieces)

    def lore_in(self, text: str, location: str) -> list[ActiveLore]:
        """The entries that ``fill()`` puts into a text."""
        named = frozenset(points_in(text)) if self._points else ()
        pointed = (entry for name, entries in self._points.items() if name in named for entry in entries)
        return [*self._injected.get(location, ()), *pointed]


def points_in(text: str) -> list[str]:
    """The names of the places for lore that a text has."""
    return _split(text)[1::2]


def _split(text: str) -> list[str]:
    """Cut a text at its places for lore: text and the name of a place by turns."""
    pieces: list[str] = []
    at = 0
    while (start := text.find(_POINT, at)) >= 0:
        end = text.find("}}", start + len(_POINT))
        if end < 0:
            break
        pieces += [text[at:start], text[start + len(_POINT) : end]]
        at = end + 2
    return [*pieces, text[at:]]
