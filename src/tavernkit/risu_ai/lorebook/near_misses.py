"""Keys that stand just outside of what a scan looks at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tavernkit.risu_ai.lorebook.entry import LorebookEntry
from tavernkit.risu_ai.lorebook.keys import LiteralKeys

LOOKED_BACK = 20
"""How many messages before the scanned ones are looked through for a hint."""


@dataclass(frozen=True, slots=True)
class NearMisses:
    """Looks through the texts before the scanned ones, when somebody asks why an entry is out."""

    literals: LiteralKeys
    unread: Sequence[str]
    """The texts of the chat that the scan depth does not reach, oldest first."""
    scan_depth: float
    messages: int
    full_word: bool

    def hint(self, entry: LorebookEntry) -> str:
        """Say where a key of an entry would have been found; empty if nowhere near."""
        if entry.use_regex:
            return ""
        first = max(len(self.unread) - LOOKED_BACK, 0)
        for place in range(len(self.unread) - 1, first - 1, -1):
            for key in entry.keys:
                if self.literals.contains(self.unread[place], key, full_word=self.full_word):
                    return f"{key!r} stands in message #{place}, which {self._reach()}"
        return ""

    def _reach(self) -> str:
        reach = f"a scan depth of {self.scan_depth:g} does not reach"
        beyond = self.scan_depth - self.messages
        if beyond > 0:  # JavaScript's slice takes a negative start as a place counted from the end
            return f"{reach} in a chat of {self.messages} messages: RisuAI then looks at the last {beyond:g} only"
        return reach
