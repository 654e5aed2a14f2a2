"""Wrong arguments to the names of ``tavernkit.stores``."""

from __future__ import annotations

import pytest

from tavernkit import ConfigError
from tavernkit.stores import InMemoryChatHistory, InMemoryVariablesStore, to_message, wrap_history
from tests.wrong_arguments import Call, Sweep

MESSAGE = {"role": "user", "content": "Hi"}
HISTORY = InMemoryChatHistory([MESSAGE])
STORE = InMemoryVariablesStore({"local": {"gold": 3}})

CALLS: dict[str, Call] = {
    "InMemoryChatHistory": (InMemoryChatHistory, {"messages": [MESSAGE]}),
    "InMemoryChatHistory.append": (HISTORY.append, {"message": MESSAGE}),
    "InMemoryChatHistory.last": (HISTORY.last, {"count": 1}),
    "InMemoryVariablesStore": (InMemoryVariablesStore, {}),
    "InMemoryVariablesStore.add": (STORE.add, {"name": "gold", "value": 1}),
    "InMemoryVariablesStore.delete": (STORE.delete, {"name": "silver"}),
    "InMemoryVariablesStore.from_dict": (InMemoryVariablesStore.from_dict, {"values": {"local": {}, "odd": 5}}),
    "InMemoryVariablesStore.get": (STORE.get, {"name": "gold"}),
    "InMemoryVariablesStore.has": (STORE.has, {"name": "gold"}),
    "InMemoryVariablesStore.set": (STORE.set, {"name": "gold", "value": 1}),
    "to_message": (to_message, {"message": MESSAGE}),
    "wrap_history": (wrap_history, {"history": [MESSAGE]}),
}

ANYTHING = {
    "InMemoryVariablesStore.add.value": "a value is what a chat's scripts make of it",
    "InMemoryVariablesStore.set.value": "a value is what a chat's scripts make of it",
}


SWEEP = Sweep("tavernkit.stores", CALLS, anything=ANYTHING)


def test_every_public_name_is_called() -> None:
    SWEEP.assert_complete()


@pytest.mark.parametrize("name", CALLS)
def test_right_arguments_are_taken(name: str) -> None:
    SWEEP.call(name)


@pytest.mark.parametrize(("name", "parameter"), SWEEP.pairs())
def test_wrong_arguments_are_refused_by_name(name: str, parameter: str) -> None:
    SWEEP.assert_refused(name, parameter)


def test_a_source_of_messages_that_is_read_again_refuses_wrong_counts() -> None:
    history = wrap_history({"a": MESSAGE}.values())
    assert len(history.last(1)) == 1
    with pytest.raises(ConfigError, match="count must be a whole number, not str '1'"):
        history.last("1")  # pyright: ignore[reportArgumentType]  # the mistake


@pytest.mark.parametrize("scope", [[], 5, None])
def test_a_scope_is_a_text(scope: object) -> None:
    with pytest.raises(ConfigError, match="scope must be text, not "):
        STORE.get("gold", scope)  # pyright: ignore[reportArgumentType]  # the mistake


def test_variables_come_by_scope() -> None:
    with pytest.raises(ConfigError, match="values must be a mapping of mappings or None, not dict"):
        InMemoryVariablesStore({"gold": 3})  # pyright: ignore[reportArgumentType]  # the mistake
