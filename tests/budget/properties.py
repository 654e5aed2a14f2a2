"""What must hold for any text and any blocks; run briefly by the tests and for long by ``make fuzz``."""

from __future__ import annotations

from collections import defaultdict

from hypothesis import strategies as st

from tavernkit.budget import (
    TOKENIZER_NAMES,
    TokenEstimator,
    TrimResult,
    apply,
    count_tokens,
    family_of,
    get_tokenizer,
    trim,
)
from tavernkit.errors import WarningLog
from tavernkit.prompt import Block
from tests.budget import bpe_oracle
from tests.budget.estimators import CHARACTERS

SNIPPETS = [
    "<|endoftext|>",
    "<|im_start|>",
    "<s>",
    "[INST]",
    "</think>",
    "'s",
    "'LL",
    "don't",
    "\r\n",
    "\n\n",
    "   ",
    "\t",
    "…",
    "123456",
    "日本語",
    "👍🏽",
    "e\u0301",
    "ǅ",
    "\u00a0",
    "\ufeff",
    "\x00",
]
texts = st.lists(st.text(max_size=12) | st.sampled_from(SNIPPETS), max_size=12).map("".join)
assigned = st.characters(exclude_categories=("Cs", "Cn"))
"""Characters whose categories do not depend on how new an engine's tables are."""
assigned_texts = st.lists(st.text(assigned, max_size=12) | st.sampled_from(SNIPPETS), max_size=12).map("".join)
broken_texts = st.text(st.characters(exclude_categories=()), max_size=40)
spaced_texts = st.lists(
    st.sampled_from(
        [
            " ",
            "  ",
            "   ",
            "\n",
            "\n\n",
            "\r",
            "\t",
            "\u2581",
            "the",
            "lamp",
            "ing",
            "a",
            ".",
            "日本",
            "é",
            "\ud83d",
            "<s>",
        ]
    )
    | st.text(max_size=4),
    max_size=16,
).map("".join)
encodings = st.sampled_from(sorted(bpe_oracle.PATTERNS))
names = st.sampled_from(TOKENIZER_NAMES)
models = (
    st.none() | st.text(max_size=20) | st.sampled_from(["gpt-4", "gpt-4o", "claude-x", "my/llama-3:free", "*", "["])
)


@st.composite
def block_lists(draw: st.DrawFn) -> list[Block]:
    """Blocks of every kind, with bundles that may span groups."""
    count = draw(st.integers(0, 12))
    return [
        Block(
            id=str(index),
            role=draw(st.sampled_from(["user", "assistant", "system", "tool"])),
            content="x" * draw(st.integers(0, 9)),
            enabled=draw(st.integers(0, 9)) > 0,
            removable=draw(st.integers(0, 5)) > 0,
            priority=draw(st.integers(-2, 3)),
            token_budget_group=draw(st.sampled_from(["system", "examples", "lore", "history", "custom", "default"])),
            metadata=draw(st.sampled_from([{}, {}, {"eviction_bundle": "a"}, {"eviction_bundle": ""}])),
        )
        for index in range(count)
    ]


def check_counts(name: str, text: str) -> None:
    tokenizer = get_tokenizer(name)
    assert tokenizer.count(text) == len(tokenizer.encode(text))


def check_counts_and_round_trip(name: str, text: str) -> None:
    tokenizer = get_tokenizer(name)
    ids = tokenizer.encode(text)
    assert tokenizer.count(text) == len(ids)
    assert tokenizer.decode(ids) == text


def check_equals_tiktokens_algorithm(name: str, text: str) -> None:
    assert get_tokenizer(name).encode(text) == bpe_oracle.encode(name, text)


def check_estimates_never_raise(text: str, model: str | None) -> None:
    log = WarningLog()
    estimator = TokenEstimator(registry={"my/*": {"tokenizer_family": "heuristic"}}, warn=log)
    count = estimator.estimate(text, model)
    assert count == estimator.estimate(text, model) == estimator.tokenize(text, model).token_count
    assert (count == 0) == (text == "")
    assert estimator.describe(model)["backend"] in ("splintr", "heuristic")
    assert count_tokens(text, model) >= 0
    if model is not None:
        family = family_of(model)
        assert family is None or family.tokenizer in TOKENIZER_NAMES
    assert log.messages == ()


def check_offsets_cover_the_text(text: str) -> None:
    result = TokenEstimator().tokenize(text, "gpt-4")
    assert result.offsets is not None
    position = 0
    for start, end in result.offsets:
        assert start <= position <= end
        position = end
    assert position == len(text)


def check_trim(blocks: list[Block], budget: int, overhead: int, strategy: str) -> None:
    result = trim(
        blocks,
        strategy=strategy,
        budget_tokens=budget,
        message_overhead_tokens=overhead,
        token_estimator=CHARACTERS,
        on_overflow="return",
    )
    cost = {block.id: len(block.content) + overhead for block in blocks}
    enabled = [block for block in blocks if block.enabled]
    kept = {block.id for block in result.kept}
    evicted = {block.id for block in result.evicted}
    assert kept | evicted == {block.id for block in enabled}
    assert not kept & evicted
    assert [block.id for block in result.kept] == [block.id for block in enabled if block.id in kept]
    assert all(block.disabled for block in result.evicted)
    assert result.report.initial_tokens == sum(cost[block.id] for block in enabled)
    assert result.report.final_tokens == sum(cost[block_id] for block_id in kept)
    assert {record.block_id for record in result.report.evictions} == evicted
    assert [block.enabled for block in apply(blocks, result)] == [block.id in kept for block in blocks]
    _check_units(enabled, evicted, result, budget, cost, strategy)


def _check_units(
    enabled: list[Block], evicted: set[str], result: TrimResult, budget: int, cost: dict[str, int], strategy: str
) -> None:
    units: dict[object, list[Block]] = defaultdict(list)
    for block in enabled:
        units[("bundle", block.metadata["eviction_bundle"]) if block.metadata else block.id].append(block)
    latest = [b.id for b in enabled if b.role == "user" and b.token_budget_group not in ("system", "examples", "lore")]
    protected = {b.id for b in enabled if b.token_budget_group == "system" or not b.removable}
    if strategy == "group_order":
        protected |= set(latest[-1:])
    for unit in units.values():
        members = {block.id for block in unit}
        assert members <= evicted or not members & evicted
        if members & protected:
            assert not members & evicted
        elif not result.report.fits:
            assert members <= evicted
    if evicted:
        last = result.report.evictions[-1].block_id
        last_unit = next(unit for unit in units.values() if last in {block.id for block in unit})
        assert result.report.final_tokens + sum(cost[block.id] for block in last_unit) > budget
