from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tavernkit.stores import InMemoryVariablesStore, VariablesStore

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)


def test_scopes_are_separate_and_their_names_fold() -> None:
    store = InMemoryVariablesStore()
    store.set("a", 1)
    store.set("a", 2, "Global")
    assert (store.get("a"), store.get("a", "global")) == (1, 2)
    assert store.get("missing") is None
    assert isinstance(store, VariablesStore)


def test_has_tells_a_stored_nothing_from_nothing() -> None:
    store = InMemoryVariablesStore()
    store.set("a", None)
    assert store.has("a")
    store.delete("a")
    assert not store.has("a")
    store.delete("a")


def test_add_sums_numbers_and_joins_everything_else() -> None:
    store = InMemoryVariablesStore()
    assert store.add("n", 2) == 2
    assert store.add("n", 3.5) == 5.5
    assert store.add("n", "x") == "5.5x"
    assert store.add("t", True) is True
    assert store.add("t", 1) == "true1"


def test_every_change_raises_the_version() -> None:
    store = InMemoryVariablesStore()
    versions = [store.cache_version]
    for change in (lambda: store.set("a", 1), lambda: store.add("a", 1), lambda: store.delete("a")):
        change()
        versions.append(store.cache_version)
    assert versions == sorted(set(versions), key=versions.index)


def test_a_copy_is_independent() -> None:
    store = InMemoryVariablesStore({"local": {"list": [1]}})
    twin = store.copy()
    twin.set("list", [2])
    assert store.get("list") == [1]


def test_adding_from_many_threads_loses_nothing() -> None:
    store = InMemoryVariablesStore()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: store.add("n", 1), range(1000)))
    assert store.get("n") == 1000


@given(st.dictionaries(st.sampled_from(["local", "global"]), st.dictionaries(st.text(), json_values)))
def test_saving_and_restoring_is_the_identity(values: dict[str, dict[str, object]]) -> None:
    store = InMemoryVariablesStore.from_dict(values)
    assert store.to_dict() == values


def test_a_number_as_a_name_is_its_text() -> None:
    store = InMemoryVariablesStore()
    number: Any = 5
    store.set(number, "x")
    assert (store.get("5"), store.get(number), store.has(number), store.to_dict()) == (
        "x",
        "x",
        True,
        {"local": {"5": "x"}},
    )
    store.delete(number)
    assert not store.has("5")
