"""The interface of every platform's lore engine, and what they share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Protocol, TypeVar

from tavernkit._dataclass import dataclass
from tavernkit._values import JsonObject
from tavernkit.budget._report import EvictionRecord, TrimReport
from tavernkit.prompt._context import REFERENCE

__all__ = ["LoreEngine", "LoreEntry", "LoreResult", "LoreRow", "TokenCounter"]

TokenCounter = Callable[[str], int]
"""Counts the tokens of a text."""


class LoreEntry(Protocol):
    """What entries of every platform have: a title and a book. Platforms add much more."""

    @property
    def title(self) -> str:
        """What people call it."""
        ...

    @property
    def book(self) -> str:
        """The book it is in."""
        ...


@dataclass(frozen=True, slots=True)
class LoreRow:
    """One entry after a scan: whether it is in the prompt, and why or why not."""

    id: str
    """The entry's id in its book."""
    title: str
    """What people call the entry."""
    book: str
    """The book that the entry is in."""
    active: bool
    """True if the entry is in the prompt."""
    reason: str
    """Why it is in the prompt or not, in words."""
    keys: Sequence[str] = ()
    """The keys of the entry."""
    content: str = ""
    """The text of the entry."""

    def to_dict(self) -> JsonObject:
        """All fields, ready for ``json``."""
        return {**asdict(self), "keys": list(self.keys)}


class LoreResult(Protocol):
    """The result of a scan: the entries that go into the prompt, and why the others do not."""

    @property
    def activated_entries(self) -> Sequence[LoreEntry]:
        """Entries that matched and fit the budget."""
        ...

    @property
    def total_tokens(self) -> int:
        """Tokens of all activated entries."""
        ...

    @property
    def trim_report(self) -> TrimReport | None:
        """Entries that fired but did not fit the lore budget; None if all fit."""
        ...

    def rows(self, *, untouched: int | None = None) -> list[LoreRow]:
        """All entries, those in the prompt first; ``untouched`` limits how many without any match are listed."""
        ...


InputT_contra = TypeVar("InputT_contra", contravariant=True)
ResultT_co = TypeVar("ResultT_co", bound=LoreResult, covariant=True)


class LoreEngine(Protocol[InputT_contra, ResultT_co]):
    """Decides which entries fire for a chat."""

    def scan(self, scan_input: InputT_contra) -> ResultT_co:
        """Scan the chat of ``scan_input`` (each platform has its own)."""
        ...


LISTED_KEYS = 5
"""How many keys a reason names."""


def no_key_found(keys: Sequence[str]) -> str:
    """Return the reason of an entry none of whose keys was found."""
    if not keys:
        return "it has no keys"
    shown = ", ".join(repr(key) for key in keys[:LISTED_KEYS])
    more = f" and {len(keys) - LISTED_KEYS} more" if len(keys) > LISTED_KEYS else ""
    return f"no key was found ({shown}{more})"


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
