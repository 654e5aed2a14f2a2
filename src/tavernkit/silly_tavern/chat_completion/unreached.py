"""History the budget never got to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

from tavernkit.budget.report import EvictionRecord
from tavernkit.silly_tavern.chat_completion.history_messages import injected_source
from tavernkit.silly_tavern.chat_completion.in_chat_injection import Injected
from tavernkit.silly_tavern.chat_completion.layout import HistoryEntry
from tavernkit.silly_tavern.chat_completion.prompt_collection import CHAT_HISTORY
from tavernkit.silly_tavern.chat_completion.token_counting import MessageCounter
from tavernkit.silly_tavern.core_chat import role_of
from tavernkit.silly_tavern.provenance import message_source


class Evictions(Sequence[EvictionRecord]):
    """Records of what was left out: first what was tried, then the history older than that, oldest message first.

    A long chat leaves thousands of messages out every turn: their records are made, and their tokens counted, when
    somebody asks. Their macros never ran, so what they cost is counted as they are written.
    """

    def __init__(
        self, tried: Sequence[EvictionRecord], unreached: Sequence[HistoryEntry], counter: MessageCounter
    ) -> None:
        self._tried = tried
        self._unreached = unreached
        self._counter = counter

    def __len__(self) -> int:
        return len(self._tried) + len(self._unreached)

    @overload
    def __getitem__(self, index: int) -> EvictionRecord: ...
    @overload
    def __getitem__(self, index: slice) -> list[EvictionRecord]: ...
    def __getitem__(self, index: int | slice) -> EvictionRecord | list[EvictionRecord]:
        """The record, or records, at a place of the list."""
        places = range(len(self))[index]
        return self._record(places) if isinstance(places, int) else [self._record(place) for place in places]

    def _record(self, place: int) -> EvictionRecord:
        if place < len(self._tried):
            return self._tried[place]
        number = place - len(self._tried)
        entry = self._unreached[number]
        if isinstance(entry, Injected):
            role, text, source = entry.role, entry.content, injected_source(entry)
        else:
            role, text, source = (
                role_of(entry.line),
                entry.text,
                message_source("compilation", entry.index, entry.line.name),
            )
        return EvictionRecord(
            block_id=f"{CHAT_HISTORY}-{number + 1}",
            token_count=self._counter.message(role, text),
            reason="budget_exceeded",
            budget_group="history",
            slot=CHAT_HISTORY,
            source=source,
        )
