"""Coverage of lorebook entries over whole chats: which never fire, which always do."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Literal

from tavernkit._dataclass import dataclass
from tavernkit._values import JsonObject
from tavernkit.lore import LoreRow

Verdict = Literal["never", "always", "only by recursion", "always out of budget", "sometimes"]

_BY_RECURSION = re.compile(r" in lore ")
_OUT_OF_BUDGET = re.compile(r"\bbudget\b")


@dataclass(frozen=True, slots=True)
class EntryCoverage:
    """One entry over all turns: in how many it was in the prompt, and why; ``over_budget`` counts lost turns."""

    id: str
    """The entry's id in its book."""
    title: str
    """What people call the entry."""
    book: str
    """The book that the entry is in."""
    turns: int
    """How many turns there were."""
    fired: int
    """In how many of them the entry was in the prompt."""
    by_recursion: int
    """In how many of them another entry activated it."""
    over_budget: int

    @property
    def verdict(self) -> Verdict:
        """The entry in a word."""
        if not self.fired:
            return "always out of budget" if self.over_budget else "never"
        if self.by_recursion == self.fired:
            return "only by recursion"
        return "always" if self.fired == self.turns else "sometimes"

    def to_dict(self) -> JsonObject:
        """All fields, ready for ``json``."""
        return {
            "id": self.id,
            "title": self.title,
            "book": self.book,
            "verdict": self.verdict,
            "turns": self.turns,
            "fired": self.fired,
            "by_recursion": self.by_recursion,
            "over_budget": self.over_budget,
        }


def lore_coverage(turns: Iterable[Sequence[LoreRow]], entries: Iterable[LoreRow] = ()) -> list[EntryCoverage]:
    """Count how often each entry is in the prompt.

    Args:
        turns: The rows of the scan of each turn.
        entries: Rows of all entries, if the turns list only entries with a match.
    """
    rows = {(row.book, row.id): row for row in entries}
    counts = {key: [0, 0, 0] for key in rows}
    total = 0
    for turn in turns:
        total += 1
        for row in turn:
            key = (row.book, row.id)
            rows.setdefault(key, row)
            count = counts.setdefault(key, [0, 0, 0])
            count[0] += row.active
            count[1] += row.active and bool(_BY_RECURSION.search(row.reason))
            count[2] += not row.active and bool(_OUT_OF_BUDGET.search(row.reason))
    return [
        EntryCoverage(row.id, row.title, row.book, total, *counts[key])
        for key, row in sorted(rows.items(), key=lambda each: counts[each[0]][0])
    ]
