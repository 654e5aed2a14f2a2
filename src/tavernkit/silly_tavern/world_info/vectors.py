"""Entries for a vector search: which ones to embed, and how to hand in what it found."""

from __future__ import annotations

from collections.abc import Iterable

from tavernkit.silly_tavern.world_info.book import WorldBook
from tavernkit.silly_tavern.world_info.entry import Entry
from tavernkit.silly_tavern.world_info.hashing import entry_hash
from tavernkit.values import JsonObject


def vectorized_entries(books: Iterable[WorldBook], *, every: bool = False) -> tuple[Entry, ...]:
    """Give the entries to embed: those marked for it (or ``every`` one) that are switched on and have content."""
    return tuple(
        entry
        for book in books
        for entry in book.entries
        if (every or entry.vectorized) and not entry.disabled and entry.content
    )


def forced_entry(entry: Entry) -> JsonObject:
    """Make the object that activates an entry from outside, for :attr:`ScanInput.forced`."""
    return {**entry.to_json(), "world": entry.world, "content": entry.content, "hash": entry_hash(entry)}
