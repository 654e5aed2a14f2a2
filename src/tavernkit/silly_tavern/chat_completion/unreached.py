"""History the budget never got to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tavernkit.budget.report import EvictionRecord
from tavernkit.silly_tavern.chat_completion.history_messages import injected_source
from tavernkit.silly_tavern.chat_completion.in_chat_injection import Injected
from tavernkit.silly_tavern.chat_completion.layout import HistoryEntry
from tavernkit.silly_tavern.chat_completion.prompt_collection import CHAT_HISTORY
from tavernkit.silly_tavern.chat_completion.token_counting import MessageCounter
from tavernkit.silly_tavern.core_chat import role_of


class UnreachedHistory:
    """Entries older than the first one that did not fit. Their macros never ran: what they cost is what they say."""

    def __init__(self, counter: MessageCounter, entries: Sequence[HistoryEntry]) -> None:
        self._entries = entries
        self._costs = [
            counter.message(entry.role, entry.content)
            if isinstance(entry, Injected)
            else counter.message(role_of(entry.line), entry.text)
            for entry in entries
        ]

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def tokens(self) -> int:
        """What all of them would cost."""
        return sum(self._costs)

    def records(self) -> Iterator[EvictionRecord]:
        """One record an entry, oldest first."""
        for number, (entry, cost) in enumerate(zip(self._entries, self._costs, strict=True), start=1):
            if isinstance(entry, Injected):
                source = injected_source(entry)
            else:
                source = {"stage": "compilation", "kind": "history", "id": entry.index, "name": entry.line.name}
            yield EvictionRecord(
                block_id=f"{CHAT_HISTORY}-{number}",
                token_count=cost,
                reason="budget_exceeded",
                budget_group="history",
                slot=CHAT_HISTORY,
                source=source,
            )
