"""Cuts the history of a layout in large steps (``strategy="cache"``)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, replace
from typing import ClassVar

from tavernkit._dataclass import dataclass
from tavernkit.cache._history_cut import CutCosts, HistoryUnit, first_kept
from tavernkit.silly_tavern._caching.frozen_lore import FrozenLine, digest
from tavernkit.silly_tavern._chat.core_chat import CoreMessage, role_of
from tavernkit.silly_tavern._chat_completion.assembly import HistoryCut
from tavernkit.silly_tavern._chat_completion.layout import HistoryEntry, Injected, Layout, PlacedMessage, Slots
from tavernkit.silly_tavern._token_counting.messages import MessageCounter


@dataclass(slots=True)
class Kept:
    """The part of the history that is kept."""

    REASON: ClassVar[str] = "makes room for messages of the chat"

    messages: list[PlacedMessage]
    cut: int
    """The number of the first chat line."""
    unreached: list[HistoryEntry]
    """Everything before it."""
    dropped: list[list[PlacedMessage]] = field(default_factory=list[list[PlacedMessage]])
    """Lore after kept messages, and texts at a depth, that did not fit."""


@dataclass(slots=True)
class _Unit:
    """A message and the lore after it, as positions in the history."""

    place: int
    entry: CoreMessage
    lore: list[int] = field(default_factory=list[int])


def cut_history(
    layout: Layout,
    slots: Slots,
    convert: Callable[[int, int], list[PlacedMessage]],
    counter: MessageCounter,
    how: HistoryCut,
    taken: int,
) -> Kept | None:
    """Choose where the history begins and return its messages; None if the newest one does not fit.

    Texts at a depth that are not frozen always stay if they are after the cut. Active lore is repeated after the newest
    message if its line is removed.

    Args:
        layout: The layout, whose history changes if lore is repeated.
        slots: What is already placed, and the budget.
        convert: Expands the entry at a position.
        counter: Counts unexpanded texts.
        how: The profile, and what the previous build kept.
        taken: How many of the newest messages are no longer in the history.
    """
    dropped: list[list[PlacedMessage]] = []
    while True:
        history = layout.history
        positions = _positions(history, len(layout.core) - 1 - taken)
        units = _units(history)
        if not units:
            return None
        start = _start(history, units, positions, slots, convert, counter, how)
        if start is not None:
            break
        # SillyTavern would not have reached texts at a depth: the message comes first.
        place = next((place for place in range(units[-1].place, len(history)) if _stood_deeper(history[place])), None)
        if place is None:
            return None
        dropped.append(convert(place, positions[place]))
        del history[place]
    begin = units[start].place if start else 0
    if start:
        _say_again(layout, units, start, how)
    kept = _kept(layout, units[start].entry.index if start else 0, begin, slots, convert, positions)
    kept.dropped += dropped
    return kept


def _start(
    history: list[HistoryEntry],
    units: list[_Unit],
    positions: list[int],
    slots: Slots,
    convert: Callable[[int, int], list[PlacedMessage]],
    counter: MessageCounter,
    how: HistoryCut,
) -> int | None:
    def cost(place: int) -> int:
        return sum(message.tokens for message in convert(place, positions[place]) if message.sent)

    floating = [place for place, each in enumerate(history) if isinstance(each, Injected) and each.frozen is None]
    room = int(slots.budget) - sum(cost(place) for place in reversed(floating))
    sizes = _sizes(history, units, how, room, cost, counter)
    around = sum(collection.tokens for collection in slots)
    tail = sum(cost(place) for place in floating if place > units[-1].place)
    costs = CutCosts(profile=how.profile, room=room, head=around, tail=tail, turns=how.turns, examples=how.examples)
    stored = None
    if how.stored is not None:
        stored = next((number for number, unit in enumerate(units) if unit.entry.index >= how.stored), None)
    return first_kept(sizes, costs, stored)


def _stood_deeper(entry: HistoryEntry) -> bool:
    """Return True for texts from a depth; prompts from the head of the list always stay."""
    if not isinstance(entry, Injected) or entry.frozen is not None:
        return False
    return any(prompt.depth for prompt in (*entry.prompts, *entry.extensions))


def _kept(
    layout: Layout,
    cut: int,
    begin: int,
    slots: Slots,
    convert: Callable[[int, int], list[PlacedMessage]],
    positions: list[int],
) -> Kept:
    history = layout.history
    groups: dict[int, list[PlacedMessage]] = {}
    left = slots.budget
    for place in range(len(history) - 1, begin - 1, -1):
        position = positions[min(place, len(positions) - 1)]  # repeated lore was inserted after the newest message
        groups[place] = [message for message in convert(place, position) if message.sent]
        left -= sum(message.tokens for message in groups[place])
    dropped: list[list[PlacedMessage]] = []
    for place in range(begin, len(history)):
        entry = history[place]
        if left < 0 and isinstance(entry, Injected) and entry.frozen is not None:
            dropped.append(groups.pop(place))
            left += sum(message.tokens for message in dropped[-1])
    messages = [message for place in sorted(groups) for message in groups[place]]
    return Kept(messages, cut, history[:begin], dropped)


def _positions(history: list[HistoryEntry], newest: int) -> list[int]:
    """Return for every entry the position in the core chat of its message, or of the message before it."""
    positions: list[int] = []
    for entry in reversed(history):
        positions.append(newest)
        if not isinstance(entry, Injected):
            newest -= 1
    return positions[::-1]


def _units(history: list[HistoryEntry]) -> list[_Unit]:
    units: list[_Unit] = []
    for place, entry in enumerate(history):
        if isinstance(entry, CoreMessage):
            units.append(_Unit(place, entry))
        elif entry.frozen is not None and units:
            units[-1].lore.append(place)
    return units


def _sizes(
    history: list[HistoryEntry],
    units: list[_Unit],
    how: HistoryCut,
    room: int,
    cost: Callable[[int], int],
    counter: MessageCounter,
) -> list[HistoryUnit]:
    """Count the tokens of units: expanded if they may be sent, otherwise unexpanded.

    Macros of messages that cannot be in any prompt must not run.
    """
    sizes: list[HistoryUnit] = []
    used = 0
    for unit in reversed(units):
        exact = used <= room
        tokens = cost(unit.place) if exact else counter.message(role_of(unit.entry.line), unit.entry.text)
        used += tokens
        lines = {place: line for place in unit.lore if (line := _line(history[place])) is not None}
        lore = {place: counter.message(line.role, line.text) for place, line in lines.items()}
        needed = sum(count for place, count in lore.items() if lines[place].id in how.active)
        sizes.append(HistoryUnit(tokens, sum(lore.values()), needed, unit.entry.line.is_user))
    return sizes[::-1]


def _line(entry: HistoryEntry) -> FrozenLine | None:
    return entry.frozen if isinstance(entry, Injected) else None


def _say_again(layout: Layout, units: list[_Unit], start: int, how: HistoryCut) -> None:
    """Repeat active lore after the newest message if its line is cut away."""
    newest = units[-1]
    kept = {
        line.id for unit in units[start:] for place in unit.lore if (line := _line(layout.history[place])) is not None
    }
    place = max([newest.place, *newest.lore]) + 1
    again: list[HistoryEntry] = []
    for unit in units[:start]:
        for old in unit.lore:
            line = _line(layout.history[old])
            if line is not None and line.id in how.active and line.id not in kept:
                kept.add(line.id)
                moved = replace(line, after=newest.entry.index, line=digest(newest.entry.line.mes))
                again.append(Injected(line.role, line.text, 0, 100, frozen=moved))
    layout.history[place:place] = again
