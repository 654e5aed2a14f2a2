"""Counting and trimming: what a long chat costs on the first turn and on every turn after it."""

from __future__ import annotations

import random
import subprocess
import sys

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from benchmarks import workloads
from tavernkit.budget import TokenEstimator, get_tokenizer, trim
from tavernkit.prompt import Block


def sentences(count: int, words: int = 40) -> list[str]:
    rng = random.Random(11)
    return [f"{index} " + " ".join(rng.choice(workloads.WORDS) for _ in range(words)) for index in range(count)]


def blocks(count: int) -> list[Block]:
    groups = ("examples", "lore", "history", "history", "history")
    return [
        Block(
            role="user" if index % 2 else "assistant",
            content=text,
            id=str(index),
            token_budget_group=groups[index % len(groups)],
            priority=index % 100,
            metadata={"source": {"stage": "history", "id": str(index)}, "eviction_bundle": str(index // 2)},
        )
        for index, text in enumerate(sentences(count))
    ]


@pytest.mark.parametrize("strategy", ["group_order", "priority"])
def test_trim_10000_blocks(benchmark: BenchmarkFixture, strategy: str) -> None:
    many = blocks(10_000)
    estimator = TokenEstimator()
    trim(many, budget_tokens=10**9, token_estimator=estimator)
    result = benchmark(lambda: trim(many, strategy=strategy, budget_tokens=8_000, token_estimator=estimator))
    assert result.report.fits


def test_trim_10000_blocks_that_fit(benchmark: BenchmarkFixture) -> None:
    many = blocks(10_000)
    estimator = TokenEstimator()
    result = benchmark(lambda: trim(many, budget_tokens=10**9, token_estimator=estimator))
    assert not result.evicted


def test_estimate_miss(benchmark: BenchmarkFixture) -> None:
    texts = sentences(1_000)
    get_tokenizer("cl100k_base").count("warm")

    def setup() -> tuple[tuple[TokenEstimator], dict[str, object]]:
        return (TokenEstimator(),), {}

    def run(estimator: TokenEstimator) -> int:
        return sum(estimator.estimate(text, "gpt-4") for text in texts)

    assert benchmark.pedantic(run, setup=setup, rounds=30) > 0


@pytest.mark.parametrize("words", [40, 400])
def test_estimate_hit(benchmark: BenchmarkFixture, words: int) -> None:
    texts = sentences(1_000, words)
    estimator = TokenEstimator()

    def run() -> int:
        return sum(estimator.estimate(text, "gpt-4") for text in texts)

    run()
    assert benchmark(run) > 0


@pytest.mark.parametrize("name", ["cl100k_base", "o200k_base", "llama3", "llama2", "deepseek_v3", "gemma3"])
def test_count_2_kilobytes(benchmark: BenchmarkFixture, name: str) -> None:
    text = " ".join(sentences(10))[:2048]
    assert benchmark(get_tokenizer(name).count, text) > 0


def test_load_cl100k(benchmark: BenchmarkFixture) -> None:
    code = "from tavernkit.budget import count_tokens; count_tokens('hi')"
    benchmark.pedantic(lambda: subprocess.run([sys.executable, "-c", code], check=True), rounds=5)
