"""Embeddings: an exact search among 100,000 messages, with NumPy and without."""

from __future__ import annotations

import math
import random

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from tavernkit.embeddings import IndexItem, VectorIndex
from tavernkit.embeddings import _index as index

MESSAGES, NUMBERS = 100_000, 384
GOAL = 0.05
"""Seconds that a search may take with NumPy."""


def _vectors() -> list[list[float]]:
    """Vectors about as far from each other as those of sentences are."""
    numbers = random.Random(26)
    pool = [numbers.gauss(0, 1) for _ in range(65_536)]
    topics = [[numbers.gauss(0, 1) for _ in range(NUMBERS)] for _ in range(40)]
    made: list[list[float]] = []
    for _ in range(MESSAGES):
        topic, start = numbers.choice(topics), numbers.randrange(len(pool) - NUMBERS)
        made.append([one + other for one, other in zip(topic, pool[start : start + NUMBERS], strict=True)])
    return made


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, list[float]]:
    path = str(tmp_path_factory.mktemp("index") / "index.db")
    vectors = _vectors()
    database = VectorIndex(path)
    for start in range(0, MESSAGES, 10_000):
        part = vectors[start : start + 10_000]
        items = [IndexItem(f"message {start + place}", str(start + place)) for place in range(len(part))]
        database.add("chat", items, part)
    database.close()
    return path, vectors[4242]


@pytest.mark.parametrize("with_numpy", [True, False], ids=["numpy", "without"])
def test_search(
    benchmark: BenchmarkFixture,
    filled: tuple[str, list[float]],
    monkeypatch: pytest.MonkeyPatch,
    *,
    with_numpy: bool,
) -> None:
    if with_numpy:
        pytest.importorskip("numpy")
    else:
        monkeypatch.setattr(index, "numpy", lambda: None)
    path, wanted = filled
    database = VectorIndex(path)
    found = benchmark.pedantic(lambda: database.search(["chat"], wanted, top_k=10), rounds=15, warmup_rounds=1)
    assert found[0].key == "4242"
    assert math.isclose(found[0].score, 1, abs_tol=1e-5)
    if with_numpy and benchmark.stats is not None:
        assert min(benchmark.stats.stats.data) < GOAL
