"""Cuts the history of a text prompt in large steps (``strategy="cache"``)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field, replace

from tavernkit._dataclass import dataclass
from tavernkit.cache._history_cut import CutCosts, HistoryUnit, first_kept
from tavernkit.silly_tavern._caching.frozen_lore import FrozenLine, digest
from tavernkit.silly_tavern._chat.core_chat import CoreMessage
from tavernkit.silly_tavern._chat_completion.assembly import HistoryCut
from tavernkit.silly_tavern._text_completion.history_items import HistoryItem
from tavernkit.silly_tavern._text_completion.messages import TextMessage


@dataclass(frozen=True, slots=True)
class TextCut:
    """Where the history begins."""

    line: int
    """The number of the first chat line."""
    kept: frozenset[int]
    """Positions of the items that stay."""
    again: Sequence[FrozenLine]
    """Active lore whose line is removed, to be repeated after the newest message."""
    newest: int
    """The position of the newest message."""


@dataclass(slots=True)
class _Unit:
    """A message and the lore after it, as positions in the items."""

    place: int
    entry: CoreMessage
    lore: dict[int, FrozenLine] = field(default_factory=dict[int, FrozenLine])


def cut_text(
    items: Sequence[HistoryItem],
    injected: Sequence[int],
    limit: float,
    around: int,
    count: Callable[[str], int],
    how: HistoryCut,
) -> TextCut | None:
    """Choose where the history of a text prompt begins; return None if the newest message does not fit.

    Items that are neither messages of the chat nor lore after one always stay.

    Args:
        items: The history, newest first.
        injected: Positions in it of texts at a depth.
        limit: The maximum tokens of the prompt.
        around: The tokens of everything except the history.
        count: Counts tokens.
        how: The profile, and what the previous build kept.
    """
    units: list[_Unit] = []
    others: list[int] = []
    for place in range(len(items) - 1, -1, -1):
        entry = items[place].entry
        if isinstance(entry, CoreMessage):
            units.append(_Unit(place, entry))
        elif isinstance(entry, TextMessage) and entry.frozen is not None and units:
            units[-1].lore[place] = entry.frozen
        else:
            others.append(place)
    if not units:
        return None
    tokens = {place: count(item.text) for place, item in enumerate(items)}
    floating = sum(tokens[place] for place in others)
    tail = sum(tokens[place] for place in injected if place < units[-1].place)
    # SillyTavern stops before the limit is reached.
    room = int(limit) - around - floating - 1
    costs = CutCosts(profile=how.profile, room=room, head=around, tail=tail, turns=how.turns, examples=how.examples)
    stored = None
    if how.stored is not None:
        stored = next((number for number, unit in enumerate(units) if unit.entry.index >= how.stored), None)
    start = first_kept([_size(unit, tokens, how) for unit in units], costs, stored)
    if start is None:
        return None
    kept = {*others, *(place for unit in units[start:] for place in (unit.place, *unit.lore))}
    line = units[start].entry.index if start else 0
    again = _again(units, start, how)
    _make_room(units, start, kept, tokens, room - sum(count(each.text) for each in again))
    return TextCut(line, frozenset(kept), again, units[-1].place)


def _size(unit: _Unit, tokens: dict[int, int], how: HistoryCut) -> HistoryUnit:
    needed = sum(tokens[place] for place, line in unit.lore.items() if line.id in how.active)
    return HistoryUnit(
        tokens[unit.place], sum(tokens[place] for place in unit.lore), needed, by_user=unit.entry.line.is_user
    )


def _again(units: Sequence[_Unit], start: int, how: HistoryCut) -> list[FrozenLine]:
    said = {line.id for unit in units[start:] for line in unit.lore.values()}
    newest = units[-1].entry
    again: list[FrozenLine] = []
    for unit in units[:start]:
        for line in unit.lore.values():
            if line.id in how.active and line.id not in said:
                said.add(line.id)
                again.append(replace(line, after=newest.index, line=digest(newest.line.mes)))
    return again


def _make_room(units: Sequence[_Unit], start: int, kept: set[int], tokens: dict[int, int], room: int) -> None:
    """Remove lore, oldest first, if the half of the history that always stays would not fit with it."""
    used = sum(tokens[place] for unit in units[start:] for place in (unit.place, *unit.lore))
    for place in (place for unit in units[start:] for place in unit.lore):
        if used <= room:
            break
        kept.discard(place)
        used -= tokens[place]
