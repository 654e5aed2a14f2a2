"""Makes blocks fit a token budget by leaving out whole units, least important first."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol, TypeAlias, get_args

from tavernkit._arguments import require, require_choice
from tavernkit._dataclass import dataclass
from tavernkit._values import thaw
from tavernkit.budget._estimator import default_estimator
from tavernkit.budget._report import EvictionRecord, ShortenedRecord, TrimReport, TrimResult
from tavernkit.errors import ConfigError, MaxTokensExceededError
from tavernkit.prompt._block import Block
from tavernkit.prompt._inputs import Estimator, OnOverflow

EVICTION_ORDER = ("examples", "lore", "history")
"""Budget groups in the order the ``group_order`` strategy empties them. ``system`` is never touched."""

_GROUPS = frozenset(("system", *EVICTION_ORDER))
_GROUP_RANK = {group: rank for rank, group in enumerate(EVICTION_ORDER)}

Shorten: TypeAlias = Callable[[Block, int], Block | None]
"""Gets a block that would be left out and the tokens it may have; returns a shorter copy, or None."""


def trim(
    blocks: Iterable[Block],
    *,
    strategy: str = "group_order",
    budget_tokens: int | None = None,
    max_tokens: int | None = None,
    reserve_tokens: int = 0,
    token_estimator: Estimator | None = None,
    model_hint: str | None = None,
    message_overhead_tokens: int = 0,
    include_message_metadata_tokens: bool = False,
    step: str = "trimming",
    on_overflow: OnOverflow = "error",
    shorten: Shorten | None = None,
) -> TrimResult:
    """Leave out blocks until the enabled ones fit.

    The budget is ``budget_tokens``, or ``max_tokens`` less ``reserve_tokens`` (kept for the reply). Strategy
    ``group_order`` empties examples, then lore, then history from its oldest message on, and keeps the latest user
    message; ``priority`` starts with the lowest priority. Blocks of the ``system`` group or with ``removable=False``
    always stay; blocks that share ``metadata["eviction_bundle"]`` stay or go together.

    If the blocks cannot fit, ``MaxTokensExceededError`` is raised (its ``partial`` is the result so far); with
    ``on_overflow="return"``, the result is returned instead. ``shorten`` may keep the last block by cutting or
    summarising it.

    Args:
        blocks: The blocks of the prompt.
        strategy: ``group_order`` or ``priority``.
        budget_tokens: The maximum tokens of the blocks.
        max_tokens: The model's context size, instead of ``budget_tokens``.
        reserve_tokens: Tokens kept for the reply.
        token_estimator: Counts the tokens; by default the bundled tokenizers.
        model_hint: The model to count for.
        message_overhead_tokens: Tokens to add for every message.
        include_message_metadata_tokens: Count the metadata of messages as well.
        step: The name of the pipeline step, for the error.
        on_overflow: ``error`` or ``return``.
        shorten: Returns a shorter form of a block.

    Raises:
        ConfigError: The strategy is unknown, or a number is out of range.
    """
    order_units = _STRATEGIES.get(strategy)
    if order_units is None:
        raise ConfigError(
            f"no trim strategy {strategy!r}: pass one of {', '.join(_STRATEGIES)}", code="UNKNOWN_STRATEGY"
        )
    for name, value in (("budget_tokens", budget_tokens), ("max_tokens", max_tokens)):
        require(name, value, int | None)
    require("reserve_tokens", reserve_tokens, int)
    require("token_estimator", token_estimator, Estimator | None)
    budget = _budget(budget_tokens, max_tokens, reserve_tokens)
    if message_overhead_tokens < 0:
        raise ConfigError(
            f"message_overhead_tokens must be 0 or more, not {message_overhead_tokens}", code="NEGATIVE_OVERHEAD"
        )
    estimator = token_estimator or default_estimator()

    def cost(block: Block) -> int:
        tokens = estimator.estimate(block.content, model_hint) + message_overhead_tokens
        if include_message_metadata_tokens:
            tokens += metadata_tokens(block.message_metadata, estimator, model_hint)
        return tokens

    enabled = [block for block in blocks if block.enabled]
    run = _Run(enabled, [cost(block) for block in enabled], budget, strategy)
    if run.current > budget:
        run.evict(order_units(run), cost, shorten)
    result = run.result()
    if not result.report.fits:
        _overflow(result, on_overflow, max_tokens, reserve_tokens, step)
    return result


def apply(blocks: Iterable[Block], result: TrimResult) -> list[Block]:
    """Return all blocks in their order with the evicted ones disabled and the shortened ones in their short form.

    Args:
        blocks: The blocks that were given to ``trim()``.
        result: What ``trim()`` returned.
    """
    changed = {block.id: block for block in result.evicted}
    shortened = {record.block_id for record in result.report.shortened}
    changed.update((block.id, block) for block in result.kept if block.id in shortened)
    return [changed.get(block.id, block) if block.enabled else block for block in blocks]


def metadata_tokens(metadata: Mapping[str, object] | None, estimator: Estimator, model_hint: str | None) -> int:
    """Return the tokens of a message's metadata as compact JSON."""
    if not metadata:
        return 0
    return estimator.estimate(compact_json(metadata), model_hint)


def compact_json(value: object) -> str:
    """Write a value as providers see it: JSON without spaces. Values that JSON cannot represent become text."""
    return json.dumps(thaw(value), ensure_ascii=False, separators=(",", ":"), default=str)


@dataclass(slots=True)
class _Unit:
    """Blocks that stay or go together, by position; if one must stay, all do."""

    members: list[int]
    group: str
    priority: int
    protected: bool
    bundled: bool

    def join(self, position: int, group: str, priority: int, protected: bool) -> None:
        self.members.append(position)
        self.group = min(self.group, group, key=_rank)
        self.priority = min(self.priority, priority)
        self.protected = self.protected or protected


class _Run:
    """One trim in progress."""

    def __init__(self, blocks: list[Block], costs: list[int], budget: int, strategy: str) -> None:
        self.blocks = blocks
        self.costs = costs
        self.budget = budget
        self.strategy = strategy
        self.initial = self.current = sum(costs)
        self.records: list[EvictionRecord] = []
        self.evicted: set[int] = set()
        self.shortened: dict[int, tuple[Block, ShortenedRecord]] = {}

    def units(self, protected_position: int | None) -> list[_Unit]:
        """Collect units in list order, by the position of their first member."""
        units: list[_Unit] = []
        bundles: dict[str | None, _Unit] = {}
        for position, block in enumerate(self.blocks):
            group = _group(block)
            bundle = _bundle(block)
            protected = group == "system" or not block.removable or position == protected_position
            unit = bundles.get(bundle)
            if unit is not None:
                unit.join(position, group, block.priority, protected)
                continue
            unit = _Unit([position], group, block.priority, protected, bundled=bundle is not None)
            units.append(unit)
            if bundle is not None:
                bundles[bundle] = unit
        return units

    def latest_user_position(self) -> int | None:
        """Return the position of the last user message in the history."""
        for position in range(len(self.blocks) - 1, -1, -1):
            block = self.blocks[position]
            if block.role == "user" and _group(block) == "history":
                return position
        return None

    def evict(self, units: Iterable[_Unit], cost: Callable[[Block], int], shorten: Shorten | None) -> None:
        """Leave out units in the given order until the rest fits."""
        for unit in units:
            if self.current <= self.budget:
                return
            if unit.protected or (shorten is not None and self._shorten(unit, cost, shorten)):
                continue
            for position in unit.members:
                self.evicted.add(position)
                self.records.append(self._record(unit, position))
                self.current -= self.costs[position]

    def result(self) -> TrimResult:
        """Return what stays and what goes."""
        kept = self.blocks
        if self.evicted or self.shortened:
            kept = [
                self.shortened[position][0] if position in self.shortened else block
                for position, block in enumerate(self.blocks)
                if position not in self.evicted
            ]
        evicted = [self.blocks[position].disable() for position in sorted(self.evicted)]
        report = TrimReport(
            strategy=self.strategy,
            budget_tokens=self.budget,
            initial_tokens=self.initial,
            final_tokens=self.current,
            evictions=tuple(self.records),
            shortened=tuple(record for _, record in self.shortened.values()),
        )
        return TrimResult(tuple(kept), tuple(evicted), report)

    def _shorten(self, unit: _Unit, cost: Callable[[Block], int], shorten: Shorten) -> bool:
        excess = self.current - self.budget
        if len(unit.members) != 1:
            return False
        position = unit.members[0]
        before = self.costs[position]
        fixed = cost(self.blocks[position].replace(content=""))
        room = before - fixed - excess
        shorter = shorten(self.blocks[position], room) if room > 0 else None
        if shorter is None:
            return False
        after = cost(shorter)
        if after > before - excess:
            return False
        record = ShortenedRecord(block_id=shorter.id, tokens_before=before, tokens_after=after)
        self.shortened[position] = (shorter, record)
        self.current -= before - after
        return True

    def _record(self, unit: _Unit, position: int) -> EvictionRecord:
        block = self.blocks[position]
        by_priority = self.strategy == "priority"
        reason = "group_overflow" if unit.bundled else "budget_exceeded"
        return EvictionRecord(
            block_id=block.id,
            slot=block.slot,
            token_count=self.costs[position],
            reason="priority_cutoff" if by_priority else reason,
            budget_group=_group(block),
            priority=block.priority if by_priority else None,
            source=block.source,
        )


def _group_order(run: _Run) -> Sequence[_Unit]:
    # Python's sort is stable: inside a group the units stay in list order.
    return sorted(run.units(run.latest_user_position()), key=lambda unit: _rank(unit.group))


def _priority_order(run: _Run) -> Sequence[_Unit]:
    return sorted(run.units(None), key=lambda unit: unit.priority)


_STRATEGIES: Mapping[str, Callable[[_Run], Sequence[_Unit]]] = {
    "group_order": _group_order,
    "priority": _priority_order,
}


def _bundle(block: Block) -> str | None:
    bundle = block.metadata.get("eviction_bundle")
    return None if bundle is None else compact_json(bundle)


def _group(block: Block) -> str:
    """Return the block's budget group; all unknown ones count as history."""
    group = block.token_budget_group
    return group if group in _GROUPS else "history"


def _rank(group: str) -> int:
    return _GROUP_RANK.get(group, len(EVICTION_ORDER))


def _budget(budget_tokens: int | None, max_tokens: int | None, reserve_tokens: int) -> int:
    if reserve_tokens < 0:
        raise ConfigError(f"reserve_tokens must be 0 or more, not {reserve_tokens}", code="NEGATIVE_RESERVE")
    if budget_tokens is None:
        return max((max_tokens or 0) - reserve_tokens, 0)
    if budget_tokens < 0:
        raise ConfigError(f"budget_tokens must be 0 or more, not {budget_tokens}", code="NEGATIVE_BUDGET")
    return budget_tokens


def _overflow(
    result: TrimResult, on_overflow: OnOverflow, max_tokens: int | None, reserve_tokens: int, step: str
) -> None:
    require_choice("on_overflow", on_overflow, get_args(OnOverflow))
    if on_overflow == "return":
        return
    report = result.report
    raise MaxTokensExceededError(
        estimated_tokens=report.final_tokens,
        max_tokens=report.budget_tokens + reserve_tokens if max_tokens is None else max_tokens,
        reserve_tokens=reserve_tokens,
        step=step,
        partial=result,
    )


class PresetBudget(Protocol):
    """A preset with a token budget. Every platform's preset has one."""

    @property
    def context_window_tokens(self) -> int:
        """The model's context size."""
        ...

    @property
    def reserved_response_tokens(self) -> int:
        """Tokens reserved for the reply."""
        ...

    @property
    def max_prompt_tokens(self) -> int:
        """Tokens left for the prompt; see ``max_prompt_tokens()``."""
        ...


def max_prompt_tokens(context_window_tokens: int | None, reserved_response_tokens: int | None) -> int:
    """Return the tokens left for the prompt: the difference, negative if the reply alone is too large.

    Args:
        context_window_tokens: The model's context size; None counts as 0.
        reserved_response_tokens: Tokens kept for the reply; None counts as 0.
    """
    return (context_window_tokens or 0) - (reserved_response_tokens or 0)
