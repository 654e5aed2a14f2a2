"""History the budget never got to."""

from __future__ import annotations

from collections.abc import Sequence

from tavernkit.budget.report import EvictionRecord
from tavernkit.silly_tavern.chat.core_chat import role_of
from tavernkit.silly_tavern.chat_completion.history_messages import injected_source
from tavernkit.silly_tavern.chat_completion.in_chat_injection import Injected
from tavernkit.silly_tavern.chat_completion.layout import HistoryEntry
from tavernkit.silly_tavern.chat_completion.prompt_collection import CHAT_HISTORY
from tavernkit.silly_tavern.provenance import message_source
from tavernkit.silly_tavern.token_counting.messages import MessageCounter
from tavernkit.values import LazySequence


def evictions(
    tried: Sequence[EvictionRecord], unreached: Sequence[HistoryEntry], counter: MessageCounter
) -> Sequence[EvictionRecord]:
    """Records of what was left out: first what was tried, then the history older than that, oldest message first.

    A long chat leaves thousands of messages out every turn: their records are made, and their tokens counted, when
    somebody asks. Their macros never ran, so what they cost is counted as they are written.
    """

    def record(place: int) -> EvictionRecord:
        number = place - len(tried)
        return tried[place] if number < 0 else _unreached(unreached[number], number, counter)

    return LazySequence(len(tried) + len(unreached), record)


def _unreached(entry: HistoryEntry, number: int, counter: MessageCounter) -> EvictionRecord:
    if isinstance(entry, Injected):
        role, text, source = entry.role, entry.content, injected_source(entry)
    else:
        line = entry.line
        role, text, source = role_of(line), entry.text, message_source("compilation", entry.index, line.name)
    return EvictionRecord(
        block_id=f"{CHAT_HISTORY}-{number + 1}",
        token_count=counter.message(role, text),
        reason="budget_exceeded",
        budget_group="history",
        slot=CHAT_HISTORY,
        source=source,
    )
