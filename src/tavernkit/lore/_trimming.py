"""What a lore budget leaves out, as a trim report."""

from __future__ import annotations

from collections.abc import Sequence

from tavernkit.budget._report import EvictionRecord, TrimReport
from tavernkit.prompt._context import REFERENCE


def over_budget(entry_id: str, tokens: int, *, title: str, book: str) -> EvictionRecord:
    """Record an entry that fired but did not fit."""
    return EvictionRecord(
        block_id=entry_id,
        token_count=tokens,
        reason="budget_exceeded",
        budget_group="lore",
        source={"stage": "lore", "kind": "lore_entry", "id": entry_id, "title": title, "book": book},
    )


def lore_trim_report(evictions: Sequence[EvictionRecord], *, budget: int, used: int) -> TrimReport | None:
    """Make the report of a scan; None if everything that fired did fit."""
    if not evictions:
        return None
    return TrimReport(
        strategy=REFERENCE,
        budget_tokens=budget,
        initial_tokens=used + sum(record.token_count for record in evictions),
        final_tokens=used,
        evictions=tuple(evictions),
    )
