"""Lore that stays in the history where it fired (``lore="freeze"``)."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from tavernkit._dataclass import dataclass
from tavernkit._text.js_values import to_number
from tavernkit._values import JsonObject, is_mapping, is_sequence
from tavernkit.silly_tavern._chat.chat_message import ChatMessage
from tavernkit.silly_tavern._chat.extension_prompts import ROLES
from tavernkit.silly_tavern._world_info.candidates import Reason
from tavernkit.silly_tavern._world_info.placement import DepthGroup, PlacedEntry, Placement
from tavernkit.silly_tavern._world_info.result import WorldInfoResult

METADATA_KEY = "tavernkit_cache"
"""The key in a chat's header for the state of cache strategies."""

MAX_FROZEN_LINES = 1000
"""The maximum number of lines in a header; the newest count."""

ALWAYS = 100
"""The probability of an entry that is in every prompt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FrozenLine:
    """A lore entry that became a line of the history."""

    after: int
    """The number of the chat line that it follows."""
    line: str
    """A digest of that line's text: if the line was changed or deleted, the entry may fire again."""
    id: str
    title: str
    text: str
    role: str = "system"
    cause: str = ""
    reference: str = ""
    """Where SillyTavern would have put it."""

    def to_json(self) -> JsonObject:
        """Return the line as stored."""
        return {
            "after": self.after,
            "line": self.line,
            "id": self.id,
            "title": self.title,
            "text": self.text,
            "role": self.role,
            "cause": self.cause,
            "reference": self.reference,
        }


def read_frozen_lines(stored: object, chat: Sequence[ChatMessage]) -> list[FrozenLine]:
    """Read the lines that still have their place in the chat, in order; unreadable ones are ignored.

    Args:
        stored: The header's value of ``METADATA_KEY``.
        chat: The chat.
    """
    items = stored.get("lore") if is_mapping(stored) else None
    found: dict[str, FrozenLine] = {}
    for item in (items if is_sequence(items) else ())[-MAX_FROZEN_LINES:]:
        line = _read(item) if is_mapping(item) else None
        if line is not None and line.after < len(chat) and digest(chat[line.after].mes) == line.line:
            found[f"{line.after} {line.id}"] = line
    return sorted(found.values(), key=lambda line: line.after)


def read_cut(stored: object) -> int | None:
    """Read the number of the first line in the previous prompt, if known."""
    value = stored.get("cut") if is_mapping(stored) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def digest(text: str) -> str:
    """Return a short digest of a text."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()


BEFORE, AFTER = "before the character", "after the character"


def freeze(
    result: WorldInfoResult, unsent: Collection[str] = ()
) -> tuple[WorldInfoResult, list[tuple[PlacedEntry, str, str]]]:
    """Remove all entries that come and go from their places.

    Constant entries stay in place, as do examples and outlets, which other texts are made from.

    Args:
        result: The scan's result.
        unsent: Places that are not in the prompt (``BEFORE``, ``AFTER``): their entries stay there.

    Returns:
        The result without the entries, and the entries in the order of the prompt, each with its role and its place.
    """
    constant = {
        each.entry.identity
        for each in result.activated
        if each.reason in (Reason.CONSTANT, Reason.ACTIVATE)
        and (not each.entry.use_probability or to_number(each.entry.probability) >= ALWAYS)
    }
    old = result.placement
    fired: list[tuple[PlacedEntry, str, str]] = []

    def split(placed: Sequence[PlacedEntry], place: str, role: str = ROLES[0]) -> tuple[PlacedEntry, ...]:
        if place in unsent:
            return tuple(placed)
        fired.extend((each, role, place) for each in placed if each.entry.identity not in constant)
        return tuple(each for each in placed if each.entry.identity in constant)

    def split_groups() -> Iterator[DepthGroup]:
        for group in old.depth_groups:
            number = to_number(group.role)
            role = ROLES[int(number)] if number in (0, 1, 2) else ROLES[0]
            entries = split(group.entries, f"in the chat at depth {group.depth}", role)
            if entries:
                yield replace(group, entries=entries)

    placement = Placement(
        before=split(old.before, BEFORE),
        after=split(old.after, AFTER),
        an_top=split(old.an_top, "above the author's note"),
        an_bottom=split(old.an_bottom, "below the author's note"),
        examples=old.examples,
        depth_groups=tuple(split_groups()),
        outlets=old.outlets,
    )
    return replace(result, placement=placement), fired


def _read(item: Mapping[str, object]) -> FrozenLine | None:
    after = item.get("after")
    texts = {name: item.get(name) for name in ("line", "id", "title", "text", "role", "cause", "reference")}
    if not isinstance(after, int) or isinstance(after, bool) or after < 0:
        return None
    if not all(isinstance(texts[name], str) and texts[name] for name in ("line", "id", "text")):
        return None
    role = texts["role"] if texts["role"] in ROLES else ROLES[0]
    return FrozenLine(
        after=after,
        line=str(texts["line"]),
        id=str(texts["id"]),
        title=str(texts["title"] or texts["id"]),
        text=str(texts["text"]),
        role=str(role),
        cause=str(texts["cause"] or ""),
        reference=str(texts["reference"] or ""),
    )
