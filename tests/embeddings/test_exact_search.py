"""Searches find what comparing every vector finds."""

from __future__ import annotations

import math
import random
import sqlite3
import sys
import threading
from array import array
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tavernkit.embeddings import IndexItem, LocalEmbedder, OpenAIEmbedder, VectorIndex
from tavernkit.embeddings import _index as index
from tavernkit.embeddings import _search as columns
from tavernkit.errors import ConfigError

NUMBERS = st.floats(-10, 10, width=32)


@pytest.fixture(params=["numpy", "without"], autouse=True)
def with_or_without_numpy(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "without":
        monkeypatch.setattr(index, "numpy", lambda: None)
    else:
        pytest.importorskip("numpy")


def items(count: int) -> list[IndexItem]:
    return [IndexItem(f"text {place}", str(place)) for place in range(count)]


def cosines(vectors: list[list[float]], wanted: list[float]) -> list[float]:
    def product(a: list[float], b: list[float]) -> float:
        return sum(x * y for x, y in zip(a, b, strict=True))

    lengths = [math.sqrt(product(each, each)) * math.sqrt(product(wanted, wanted)) for each in vectors]
    return [product(each, wanted) / length if length else 0.0 for each, length in zip(vectors, lengths, strict=True)]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.lists(NUMBERS, min_size=3, max_size=3), min_size=1, max_size=60),
    st.lists(NUMBERS, min_size=3, max_size=3),
    st.integers(1, 8),
)
def test_a_search_is_exact(vectors: list[list[float]], wanted: list[float], top_k: int) -> None:
    searched = VectorIndex()
    searched.add("c", items(len(vectors)), vectors)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(columns, "BLOCK_ITEMS", 7)
        found = searched.search(["c"], wanted, top_k=top_k, threshold=-2)
    best = sorted(cosines(vectors, wanted), reverse=True)[:top_k]
    assert [match.score for match in found] == pytest.approx(best, abs=1e-4)


def test_a_search_among_many_is_exact_also_with_numbers_out_of_the_ordinary() -> None:
    numbers = random.Random(3)
    vectors = [[numbers.gauss(0.2, 1) for _ in range(48)] for _ in range(3000)]
    for vector in vectors[::10]:
        vector[7] *= 60  # larger than a code can be
    searched = VectorIndex()
    searched.add("c", items(3000), vectors)
    for _ in range(5):
        wanted = [numbers.gauss(0.2, 1) for _ in range(48)]
        scores = cosines(vectors, wanted)
        best = sorted(range(3000), key=lambda place: -scores[place])[:20]
        assert [match.key for match in searched.search(["c"], wanted, top_k=20)] == [str(place) for place in best]


def test_only_a_few_candidates_are_compared_again() -> None:
    numbers = random.Random(4)
    vectors = [[numbers.gauss(0, 1) for _ in range(64)] for _ in range(2000)]
    searched = VectorIndex()
    searched.add("c", items(2000), vectors)
    asked: list[str] = []
    searched._connection.set_trace_callback(asked.append)  # pyright: ignore[reportPrivateUsage]
    searched.search(["c"], vectors[7], top_k=3)
    compared = [query for query in asked if "id, vector FROM" in query and " IN " in query]
    assert compared
    assert sum(query.count(",") for query in compared) < 100


@pytest.mark.parametrize("size", [1, 2, 3, 384, 512, 513, 8192])
def test_scores_stay_in_their_slots(size: int) -> None:
    """The same vector and its opposite have the highest and the lowest score, whatever their numbers are."""
    numbers = random.Random(size)
    vectors = [[1.0] + [0.0] * (size - 1), [1.0] * size, [numbers.gauss(0, 1) for _ in range(size)]]
    vectors += [[-number for number in vector] for vector in vectors]
    searched = VectorIndex()
    searched.add("c", items(6), vectors)
    for place, wanted in enumerate(vectors):
        scores = cosines(vectors, wanted)
        best = sorted(range(6), key=lambda other: -scores[other])
        found = searched.search(["c"], wanted, top_k=5, threshold=-2)
        assert found[0].score == pytest.approx(1, abs=1e-5)
        assert [match.score for match in found] == pytest.approx([scores[other] for other in best[:5]], abs=1e-4)
        assert str(place) in {match.key for match in found if match.score > 0.999}


def test_long_vectors_are_searched_exactly_too() -> None:
    numbers = random.Random(6)
    vectors = [[numbers.gauss(0.1, 1) for _ in range(600)] for _ in range(400)]
    searched = VectorIndex()
    searched.add("c", items(400), vectors)
    wanted = [numbers.gauss(0.1, 1) for _ in range(600)]
    scores = cosines(vectors, wanted)
    best = sorted(range(400), key=lambda place: -scores[place])[:30]
    assert [match.key for match in searched.search(["c"], wanted, top_k=30)] == [str(place) for place in best]


def test_equal_vectors_are_found_in_the_order_in_which_they_were_added() -> None:
    searched = VectorIndex()
    searched.add("c", items(500), [[3.0, 4.0, 0.0]] * 500)
    assert [match.key for match in searched.search(["c"], [0.6, 0.8, 0], top_k=3)] == ["0", "1", "2"]


def test_a_large_collection_without_numpy_gives_one_hint(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(index, "NUMPY_HELPS_FROM", 40)
    monkeypatch.setattr(index, "_hinted", threading.Event())
    searched = VectorIndex()
    for name, count in (("small", 3), ("large", 10), ("other", 10)):
        searched.add(name, items(count), [[1, 0, 0, 0]] * count)
        searched.search([name], [1, 0, 0, 0], top_k=1)
        searched.search([name], [1, 0, 0, 0], top_k=1)
    hints = [record.message for record in caplog.records if "tavernkit[numpy]" in record.message]
    without = request.node.callspec.params["with_or_without_numpy"] == "without"
    assert len(hints) == (1 if without else 0)


def test_vectors_of_another_length_are_not_found_and_long_ones_refused() -> None:
    searched = VectorIndex()
    searched.add("c", items(2), [[1, 0], [1, 0, 0]])
    assert [match.key for match in searched.search(["c"], [1, 0, 0], top_k=9)] == ["1"]
    assert searched.search(["c"], [1, 0, 0], top_k=0) == []
    with pytest.raises(ConfigError, match="at most"):
        searched.add("c", items(1), [[0.0] * 20_000])


def test_an_index_of_version_0_1_is_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "index.db"
    with sqlite3.connect(path) as old:
        old.execute(
            "CREATE TABLE items (id INTEGER PRIMARY KEY, collection TEXT, key TEXT, place INTEGER, text TEXT, "
            "vector BLOB, signs BLOB, UNIQUE (collection, key, place))"
        )
        row = ("c", "k", 0, "kept", array("f", [0.6, 0.8]).tobytes(), b"\x03")
        old.execute("INSERT INTO items (collection, key, place, text, vector, signs) VALUES (?, ?, ?, ?, ?, ?)", row)
    old.close()
    taken = VectorIndex(path)
    assert taken.search(["c"], [0.6, 0.8], top_k=1)[0].text == "kept"
    taken.close()
    assert VectorIndex(path).keys("c") == {"k"}


def test_the_local_embedder_asks_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def make(*, model_name: str) -> object:
        asked.append(model_name)
        return SimpleNamespace(embed=lambda texts: (array("f", [len(text), 1]) for text in texts))

    package = ModuleType("fastembed")
    monkeypatch.setattr(package, "TextEmbedding", make, raising=False)
    monkeypatch.setitem(sys.modules, "fastembed", package)
    assert LocalEmbedder("some/model").embed(["a", "bb"]) == [[1.0, 1.0], [2.0, 1.0]]
    assert asked == ["some/model"]


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fastembed", None)
    with pytest.raises(ConfigError, match=r"tavernkit\[fastembed\]"):
        LocalEmbedder()
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(ConfigError, match="pip install openai"):
        OpenAIEmbedder("any")


def test_a_collection_that_grew_is_read_again() -> None:
    searched = VectorIndex()
    searched.add("c", items(1), [[1, 0]])
    assert searched.search(["c"], [0, 1], top_k=1)[0].score == 0
    searched.add("c", [IndexItem("later", "later")], [[0, 1]])
    assert searched.search(["c"], [0, 1], top_k=1)[0].key == "later"


def test_both_ways_give_the_same_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numpy")
    numbers = random.Random(5)
    vectors = [[numbers.gauss(0, 1) for _ in range(32)] for _ in range(500)]
    fast = VectorIndex()
    monkeypatch.setattr(index, "numpy", lambda: None)
    slow = VectorIndex()
    for searched in (fast, slow):
        searched.add("c", items(500), vectors)
    assert fast.search(["c"], vectors[3], top_k=20) == slow.search(["c"], vectors[3], top_k=20)
