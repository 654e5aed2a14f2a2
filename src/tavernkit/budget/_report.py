"""What a trim did, block by block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from tavernkit._dataclass import dataclass
from tavernkit._values import FrozenJson, JsonObject, thaw_object
from tavernkit.prompt._block import Block


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictionRecord:
    """One block that was left out because it did not fit.

    ``reason`` is ``budget_exceeded``, ``group_overflow`` (left out with its bundle) or ``priority_cutoff``; a
    platform's own algorithm may have others. ``source`` is the block's provenance.
    """

    block_id: str
    """The id of the block."""
    token_count: int
    """The tokens of the block."""
    reason: str
    budget_group: str
    """The group that it was counted in: ``examples``, ``lore``, ``history``, …"""
    slot: str | None = None
    """The place in the layout that it would have filled."""
    priority: int | None = None
    """Its priority, with the strategy ``priority``."""
    source: FrozenJson = None

    def to_dict(self) -> JsonObject:
        """All fields, ready for ``json``."""
        return thaw_object({name: getattr(self, name) for name in self.__slots__})


@dataclass(frozen=True, slots=True, kw_only=True)
class ShortenedRecord:
    """One block that was kept in a shorter form."""

    block_id: str
    """The id of the block."""
    tokens_before: int
    """The tokens of the whole block."""
    tokens_after: int
    """The tokens of the shorter form."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrimReport:
    """The numbers of a trim. ``strategy`` is the algorithm: ``group_order``, ``priority`` or a platform's own."""

    strategy: str
    budget_tokens: int
    """Tokens that the blocks may have together."""
    initial_tokens: int
    """Tokens before trimming."""
    final_tokens: int
    """Tokens after trimming."""
    evictions: Sequence[EvictionRecord] = ()
    """What was left out."""
    shortened: Sequence[ShortenedRecord] = ()
    """What was kept in a shorter form."""

    @property
    def eviction_count(self) -> int:
        """How many blocks were left out."""
        return len(self.evictions)

    @property
    def tokens_saved(self) -> int:
        """Tokens that trimming saved."""
        return self.initial_tokens - self.final_tokens

    @property
    def over_budget(self) -> bool:
        """True if the blocks exceeded the budget before trimming; see also ``fits``."""
        return self.initial_tokens > self.budget_tokens

    @property
    def fits(self) -> bool:
        """True if the remaining blocks are within the budget."""
        return self.final_tokens <= self.budget_tokens

    def to_dict(self) -> JsonObject:
        """All fields and sums, ready for ``json``."""
        return {
            "strategy": self.strategy,
            "budget_tokens": self.budget_tokens,
            "initial_tokens": self.initial_tokens,
            "final_tokens": self.final_tokens,
            "eviction_count": self.eviction_count,
            "evictions": [record.to_dict() for record in self.evictions],
            "shortened": [asdict(record) for record in self.shortened],
            "tokens_saved": self.tokens_saved,
            "over_budget": self.over_budget,
            "fits": self.fits,
        }


@dataclass(frozen=True, slots=True)
class TrimResult:
    """The blocks that stay, disabled copies of those that do not (both in list order), and the report."""

    kept: Sequence[Block]
    """The blocks that stay."""
    evicted: Sequence[Block]
    """The blocks that do not, disabled."""
    report: TrimReport
    """The sums and the reasons."""
