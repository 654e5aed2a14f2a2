"""Values survive pickling and copying: what other processes get is what they would have built."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest

import tavernkit as tk
from tavernkit import risu_ai
from tavernkit import silly_tavern as st
from tavernkit.examples import example_path

CARD = tk.load(example_path("aria.json")).character
PRESET = st.Preset.load(example_path("preset.json"))
BOOK = st.WorldBook.load(example_path("tidewatch.json"))
CHAT = st.ChatFile.load(example_path("chat.jsonl"))
BUILDER = st.Builder(character=CARD, user=tk.User(name="Ann"), preset=PRESET, books=[BOOK], warn=None)
RISU = risu_ai.Builder(character=CARD, user=tk.User(name="Ann"), warn=None)
TURN: dict[str, Any] = {"history": CHAT, "message": "Who lit the lamp? {{random::a,b,c}}"}


def pickled(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


@pytest.mark.parametrize("copied", [pickled, copy.deepcopy], ids=["pickle", "deepcopy"])
@pytest.mark.parametrize(
    "value", [CARD, PRESET, st.Settings(), risu_ai.Preset(), risu_ai.Settings()], ids=lambda v: type(v).__qualname__
)
def test_values_are_equal_to_their_copies(value: object, copied: Callable[[Any], Any]) -> None:
    assert copied(value) == value


@pytest.mark.parametrize("copied", [pickled, copy.deepcopy], ids=["pickle", "deepcopy"])
def test_chats_books_and_variables_keep_what_they_hold(copied: Callable[[Any], Any]) -> None:
    assert [line.to_json() for line in copied(CHAT).messages] == [line.to_json() for line in CHAT.messages]
    assert copied(BOOK).to_json() == BOOK.to_json()
    store = tk.InMemoryVariablesStore({"local": {"gold": 3}})
    assert copied(store).to_dict() == store.to_dict()


@pytest.mark.parametrize("copied", [pickled, copy.deepcopy], ids=["pickle", "deepcopy"])
@pytest.mark.parametrize("dialect", [None, "text"])
def test_a_context_and_a_builder_build_the_same_elsewhere(dialect: str | None, copied: Callable[[Any], Any]) -> None:
    context = BUILDER.make_context(**TURN, dialect=dialect)
    expected = BUILDER.run(context)
    assert copied(BUILDER).run(copied(context)).fingerprint() == expected.fingerprint()


@pytest.mark.parametrize("dialect", [None, "text"])
def test_a_plan_can_be_read_back_and_explained(dialect: str | None) -> None:
    plan = BUILDER.build(**TURN, dialect=dialect, seed=1)
    back = pickled(plan)
    assert back.fingerprint() == plan.fingerprint()
    assert back.request().options == plan.request().options
    assert isinstance(plan.lore_result, st.WorldInfoResult)
    assert [row.reason for row in back.lore_result.rows()] == [row.reason for row in plan.lore_result.rows()]
    assert back.lore_result.total_tokens == plan.lore_result.total_tokens > 0
    assert back.lore_result.explain(1).text == plan.lore_result.explain(1).text


def test_risuais_builder_and_plan_too() -> None:
    context = RISU.make_context(message="Hi {{random::a,b,c}}")
    plan = RISU.run(context)
    assert pickled(RISU).run(pickled(context)).fingerprint() == plan.fingerprint()
    assert pickled(plan).fingerprint() == plan.fingerprint()
