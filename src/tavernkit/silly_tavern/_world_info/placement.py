"""Where activated entries go."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import field
from enum import IntEnum

from tavernkit._dataclass import dataclass
from tavernkit._text.js_values import UNDEFINED, Undefined, strict_equals, to_number, type_of
from tavernkit._text.traced import join
from tavernkit._values import Json
from tavernkit.errors import Warn
from tavernkit.silly_tavern._world_info.entry import Entry
from tavernkit.silly_tavern._world_info.scan_input import ApplyRegex
from tavernkit.silly_tavern._world_info.selection import sort_by_order

DEFAULT_DEPTH = 4


class Position(IntEnum):
    """The position setting of an entry."""

    BEFORE = 0
    AFTER = 1
    AN_TOP = 2
    AN_BOTTOM = 3
    AT_DEPTH = 4
    EM_TOP = 5
    EM_BOTTOM = 6
    OUTLET = 7


@dataclass(frozen=True, slots=True)
class PlacedEntry:
    """An entry in its place: ``content`` is the text that goes there."""

    entry: Entry
    content: str


@dataclass(frozen=True, slots=True)
class ExampleEntry:
    """An entry that is read as example dialogue, before or after the character's own."""

    entry: Entry
    content: str
    before: bool


@dataclass(frozen=True, slots=True)
class DepthGroup:
    """Entries that go into the chat together. ``depth`` and ``role`` are the file's values."""

    depth: Json | Undefined
    role: Json
    entries: tuple[PlacedEntry, ...]

    @property
    def text(self) -> str:
        """The text that is injected."""
        return join("\n", (placed.content for placed in self.entries))


@dataclass()
class _OpenGroup:
    depth: Json | Undefined
    role: Json
    entries: list[PlacedEntry] = field(default_factory=list[PlacedEntry])


@dataclass(frozen=True, slots=True)
class Placement:
    """All activated entries in their places."""

    before: tuple[PlacedEntry, ...] = ()
    after: tuple[PlacedEntry, ...] = ()
    an_top: tuple[PlacedEntry, ...] = ()
    an_bottom: tuple[PlacedEntry, ...] = ()
    examples: tuple[ExampleEntry, ...] = ()
    depth_groups: tuple[DepthGroup, ...] = ()
    outlets: dict[str, tuple[PlacedEntry, ...]] = field(default_factory=dict[str, tuple[PlacedEntry, ...]])


def place(activated: Iterable[tuple[Entry, str]], apply_regex: ApplyRegex, warn: Warn) -> Placement:
    """Put activated entries (with their contents) in their places.

    Entries of higher order come later in the text; among equals the one activated later comes first. For outlets it is
    the reverse.
    """
    entries = list(activated)
    lists: dict[int, list[PlacedEntry]] = {position: [] for position in Position}
    examples: list[ExampleEntry] = []
    groups: list[_OpenGroup] = []
    known: dict[object, _OpenGroup] = {}
    outlets: dict[str, list[PlacedEntry]] = {}
    for entry, content in sort_by_order(entries, [entry.order for entry, _ in entries]):
        position = _position(entry)
        content = apply_regex(content, _script_depth(entry) if position is Position.AT_DEPTH else None)
        if not content or position is None:
            continue
        placed = PlacedEntry(entry, content)
        if position is Position.AT_DEPTH:
            _join_group(groups, known, placed)
        elif position is Position.OUTLET:
            if entry.outlet_name:
                outlets.setdefault(entry.outlet_name, []).append(placed)
            else:
                warn(f"World Info entry {entry.identity} ({entry.comment!r}) is for an outlet but names none")
        elif position in (Position.EM_TOP, Position.EM_BOTTOM):
            examples.append(ExampleEntry(entry, content, before=position is Position.EM_TOP))
        else:
            lists[position].append(placed)

    return Placement(
        before=_reversed(lists[Position.BEFORE]),
        after=_reversed(lists[Position.AFTER]),
        an_top=_reversed(lists[Position.AN_TOP]),
        an_bottom=_reversed(lists[Position.AN_BOTTOM]),
        examples=tuple(reversed(examples)),
        depth_groups=tuple(DepthGroup(group.depth, group.role, _reversed(group.entries)) for group in groups),
        outlets={name: tuple(placed) for name, placed in outlets.items()},
    )


_POSITIONS = {int(position): position for position in Position}


def _position(entry: Entry) -> Position | None:
    # An entry with another value, the text "0" too, is active but has no place.
    value = entry.position
    if type(value) is int:
        return _POSITIONS.get(value)
    return next((position for position in Position if strict_equals(value, int(position))), None)


def _script_depth(entry: Entry) -> float | None:
    depth = _depth(entry)
    # Scripts use only numeric depths; text such as "4" does not count.
    return float(depth) if isinstance(depth, (int, float)) and not isinstance(depth, bool) else None


def _depth(entry: Entry) -> Json | Undefined:
    depth = entry.depth
    return DEFAULT_DEPTH if depth is None or depth is UNDEFINED else depth


def _join_group(groups: list[_OpenGroup], known: dict[object, _OpenGroup], placed: PlacedEntry) -> None:
    """Add to the group with the entry's depth and role, or start one, which keeps the file's depth value."""
    role = placed.entry.role
    role = 0 if role is None or role is UNDEFINED else role
    depth = _depth(placed.entry)
    group = known.get((_sameness(depth), _sameness(role)))
    if group is None:
        group = _OpenGroup(placed.entry.depth, role)
        groups.append(group)
        known.setdefault((_sameness(group.depth), _sameness(role)), group)
    group.entries.append(placed)


def _sameness(value: Json | Undefined) -> object:
    """Return a key that is equal for values that JavaScript's ``===`` considers equal."""
    kind = type_of(value)
    if kind == "number":
        number = to_number(value)
        return object() if math.isnan(number) else (kind, number)
    return (kind, id(value) if kind == "object" else value)


def _reversed(placed: Sequence[PlacedEntry]) -> tuple[PlacedEntry, ...]:
    return tuple(reversed(placed))
