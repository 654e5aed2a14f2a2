"""Where to cut a history that no longer fits, so that many turns keep the same prefix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from tavernkit.cache._profiles import CacheProfile

MAX_CANDIDATES = 64
"""How many possible cuts are compared; in a long history they are spread evenly."""


@dataclass(frozen=True, slots=True)
class HistoryUnit:
    """A message of the chat with its tool calls and the lore frozen after it.

    ``needed`` counts the tokens of active lore that must be inserted again if the unit is removed.
    """

    tokens: int
    lore: int = 0
    needed: int = 0
    by_user: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CutCosts:
    """The inputs for the price of a cut."""

    profile: CacheProfile
    room: int
    """Tokens that the history may have."""
    head: int = 0
    """Tokens before the history, which stay cached when it is cut."""
    tail: int = 0
    """Tokens after the history, which are sent again in every turn."""
    turns: int = 0
    """How many more turns are expected; 0 for as many as there were."""
    examples: int = 0
    """Tokens of example dialogue before the history, which is removed for good when the history no longer fits."""


def price_of_keeping(kept: float, growth: float, turns: int, costs: CutCosts) -> float:
    """Return the expected price of one token of history sent, if a full history is always cut down to ``kept`` tokens.

    After a cut, everything that is kept is written to the cache; each later turn reads it and writes what is new, until
    the context is full again. Less history always costs less in total, so prices per token of history are compared.

    Args:
        kept: Tokens of history after a cut.
        growth: Tokens that a turn adds.
        turns: How many turns are expected.
        costs: The rest of the prompt, and the provider's prices.
    """
    read, write = costs.profile.read, costs.profile.write
    cycle = 1 + max(int((costs.room - kept) / growth), 0)
    price = sent = 0.0
    for length, times in ((cycle, turns // cycle), (turns % cycle, 1)):
        if not length or not times:
            continue
        later = length - 1
        cut = kept * write + later * (kept * read + growth * write) + read * growth * later * (later - 1) / 2
        price += times * (cut + length * (costs.head * read + costs.tail))
        sent += times * (length * kept + growth * length * later / 2)
    return price / sent if sent else price


def first_kept(units: Sequence[HistoryUnit], costs: CutCosts, stored: int | None = None) -> int | None:
    """Return the first unit that stays in the prompt; None if not even the newest fits.

    Without a stored cut, the history is replayed turn by turn and cut wherever it became too long, so the same chat
    gives the same cuts. At least half of what would fit is kept, in messages and in tokens.

    Args:
        units: The history, oldest first.
        costs: The available tokens, and what a cut costs.
        stored: The first unit that was kept before; it stays unless the history no longer fits, or has become so short
            that less than half of what would fit is kept.
    """
    walk = _Walk(units, costs)
    last = len(units) - 1
    if last < 0 or not walk.fits(last, last):
        return 0 if last < 0 else None
    if stored is not None and 0 <= stored <= walk.floor(last):
        return stored if walk.may_stay(stored, last) else walk.cut(stored, last)
    start = 0
    for end, unit in enumerate(units):
        if (unit.by_user or end == last) and not walk.may_stay(start, end):
            start = walk.cut(start, end)
    return start


class _Walk:
    def __init__(self, units: Sequence[HistoryUnit], costs: CutCosts) -> None:
        self.costs = costs
        self.messages = [0, *accumulate(unit.tokens for unit in units)]
        self.lore = [0, *accumulate(unit.lore for unit in units)]
        self.needed = [0, *accumulate(unit.needed for unit in units)]
        self.turns = [0, *accumulate(unit.by_user for unit in units)]
        self.by_user = [unit.by_user for unit in units]

    def kept(self, start: int, end: int) -> int:
        """Tokens of the units from ``start`` to ``end``, and of the lore that must be inserted again."""
        own = self.messages[end + 1] - self.messages[start] + self.lore[end + 1] - self.lore[start]
        return own + self.needed[start]

    def fits(self, start: int, end: int) -> bool:
        return self.kept(start, end) <= self.costs.room

    def may_stay(self, start: int, end: int) -> bool:
        """Return False if the history is too long, or if the prompt changes before it, so that a cut may be cheap."""
        return self.fits(start, end) and not (start == 0 and self.examples_leave(end))

    def examples_leave(self, end: int) -> bool:
        """Return True in the turn in which example dialogue is removed to make room for the history."""
        if not self.costs.examples:
            return False
        before = next((place for place in range(end - 1, -1, -1) if self.by_user[place]), None)
        room = self.costs.room - self.costs.examples
        return self.kept(0, end) > room and (before is None or self.kept(0, before) <= room)

    def reference(self, end: int) -> int:
        """The first unit that would be kept without cache strategies."""
        low, high = 0, end
        while low < high:
            middle = (low + high) // 2
            if self.messages[end + 1] - self.messages[middle] <= self.costs.room:
                high = middle
            else:
                low = middle + 1
        return low

    def floor(self, end: int) -> int:
        """The last unit that a cut may start at: half of what would fit is kept."""
        first = self.reference(end)
        start = first + (end + 1 - first) // 2
        half = (self.messages[end + 1] - self.messages[first]) / 2
        while start > first and self.messages[end + 1] - self.messages[start] < half:
            start -= 1
        return start

    def cut(self, start: int, end: int) -> int:
        """Choose the cut with the lowest price per token of history."""
        floor = max(self.floor(end), start)
        first = next((place for place in range(start, floor + 1) if self.fits(place, end)), floor)
        step = max((floor - first) // MAX_CANDIDATES, 1)
        candidates = [*range(floor, first - 1, -step)]
        turns = max(self.turns[end + 1], 1)
        growth = max((self.messages[end + 1] + self.lore[end + 1]) / turns, 1.0)
        expected = self.costs.turns or turns
        prices = {place: price_of_keeping(self.kept(place, end), growth, expected, self.costs) for place in candidates}
        return min(candidates, key=lambda place: (prices[place], place))
