"""Lore as one table, whichever engine scanned it."""

from __future__ import annotations

from tavernkit.lore import LoreResult, LoreRow

MAX_UNTOUCHED = 2000
"""Entries listed that no text touched: the page of a very large book stays one that a browser can show."""


def lore_rows(result: LoreResult | None, *, limit: int = MAX_UNTOUCHED) -> list[LoreRow]:
    """List the entries of a scan, those in the prompt first, and at most ``limit`` that no text touched."""
    return [] if result is None else result.rows(untouched=limit)
