from __future__ import annotations

import gc
import random
import sqlite3
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tavernkit.embeddings import IndexItem, OpenAIEmbedder, VectorIndex
from tavernkit.errors import ConfigError


def item(key: str) -> IndexItem:
    return IndexItem(f"text {key}", key)


def test_the_nearest_come_first_and_far_ones_are_left_out():
    index = VectorIndex()
    index.add("c", [item("1"), item("2"), item("3")], [[1, 0], [0.9, 0.1], [-1, 0]])
    found = index.search(["c"], [2, 0], top_k=5, threshold=0.25)
    assert [match.key for match in found] == ["1", "2"]
    assert found[0].score == pytest.approx(1)
    assert index.search(["c"], [2, 0], top_k=1)[0].key == "1"


@pytest.mark.parametrize("size", [1e200, 1e-200])
def test_only_the_direction_of_a_vector_counts(size: float):
    index = VectorIndex()
    index.add("c", [item("1"), item("2")], [[3 * size, 4 * size], [-4 * size, 3 * size]])
    found = index.search(["c"], [3, 4], top_k=2)
    assert [match.score for match in found] == pytest.approx([1, 0])


def test_collections_are_searched_together_or_alone():
    index = VectorIndex()
    index.add("a", [item("1")], [[1, 0]])
    index.add("b", [item("2")], [[1, 0.1]])
    assert {match.collection for match in index.search(["a", "b", "nowhere"], [1, 0], top_k=9)} == {"a", "b"}
    assert [match.key for match in index.search("a", [1, 0], top_k=9)] == ["1"]
    index.remove("b", "nothing")
    index.remove("a")
    assert index.search(["a"], [1, 0], top_k=9) == []
    assert (index.keys("a"), index.keys("b")) == (frozenset(), {"2"})


def test_single_keys_are_forgotten():
    index = VectorIndex()
    index.add("a", [item("1"), item("2"), item("3")], [[1, 0], [1, 0.1], [1, 0.2]])
    assert len(index.search(["a"], [1, 0], top_k=9)) == 3
    index.remove("a", ["1", "3", "4"])
    assert [match.key for match in index.search(["a"], [1, 0], top_k=9)] == ["2"]


def test_half_characters_are_kept(tmp_path: Path):
    name, text, key = "chat \ud83d", "a \ud83d", "k\udc00"
    for _ in range(2):
        index = VectorIndex(tmp_path / "index.db")
        index.add(name, [IndexItem(text, key), item("other")], [[1, 0], [0, 1]])
        assert index.keys(name) == {key, "other"}
        (found,) = index.search([name], [1, 0], top_k=1)
        assert (found.collection, found.text, found.key) == (name, text, key)
        index.close()
    index = VectorIndex(tmp_path / "index.db")
    index.remove(name, [key])
    assert index.keys(name) == {"other"}
    index.remove(name)
    assert index.keys(name) == frozenset()


def test_an_index_is_kept_in_its_file(tmp_path: Path):
    first = VectorIndex(tmp_path / "index.db")
    first.add("c", [item("1")], [[1, 0]])
    first.close()
    assert VectorIndex(tmp_path / "index.db").search(["c"], [1, 0], top_k=1)[0].text == "text 1"


def test_the_nearest_of_many_is_found():
    numbers = random.Random(1)
    vectors = [[numbers.gauss(0, 1) for _ in range(64)] for _ in range(2000)]
    index = VectorIndex()
    index.add("c", [item(str(place)) for place in range(2000)], vectors)
    for place in range(0, 2000, 100):
        near = [number + numbers.gauss(0, 0.2) for number in vectors[place]]
        assert index.search(["c"], near, top_k=1)[0].key == str(place)


@given(st.lists(st.floats(allow_nan=False, width=32), min_size=1, max_size=5))
def test_any_vector_can_be_indexed_and_searched_for(vector: list[float]):
    index = VectorIndex()
    index.add("c", [item("1")], [vector])
    assert len(index.search(["c"], vector, top_k=1, threshold=-2)) == 1
    assert index.search(["c"], [*vector, 1.0], top_k=1, threshold=0) == []


def test_as_many_vectors_as_items_are_needed():
    with pytest.raises(ConfigError, match="as many vectors"):
        VectorIndex().add("c", [item("1")], [])


def test_an_endpoint_is_asked_in_batches_and_its_answers_are_put_in_order():
    asked: list[list[str]] = []

    def create(*, model: str, input: list[str]) -> Any:  # noqa: A002
        assert model == "m"
        asked.append(input)
        rows = [SimpleNamespace(index=place, embedding=[float(len(text))]) for place, text in enumerate(input)]
        return SimpleNamespace(data=rows[::-1])

    client = SimpleNamespace(embeddings=SimpleNamespace(create=create))
    embedder = OpenAIEmbedder("m", client=client, batch_size=2)
    assert embedder.embed(["a", "bb", "ccc"]) == [[1.0], [2.0], [3.0]]
    assert asked == [["a", "bb"], ["ccc"]]
    with pytest.raises(ConfigError):
        OpenAIEmbedder("m", client=client, batch_size=0)


def test_an_endpoint_that_leaves_a_text_out_is_an_error():
    client = SimpleNamespace(embeddings=SimpleNamespace(create=lambda **_given: SimpleNamespace(data=[])))
    with pytest.raises(ValueError, match="0 vectors for 1 texts"):
        OpenAIEmbedder("m", client=client).embed(["a"])


def test_the_database_is_closed_with_its_index() -> None:
    index = VectorIndex()
    connection = index._connection  # pyright: ignore[reportPrivateUsage]
    del index
    gc.collect()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        connection.execute("SELECT 1")
