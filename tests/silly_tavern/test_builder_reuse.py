"""What a builder does not do again on the next turn."""

from __future__ import annotations

import gc
import sys
from pathlib import Path
from types import FrameType
from typing import Any
from weakref import ref

import pytest

import tavernkit
from benchmarks import bench_st_build
from tavernkit.budget import TokenEstimator
from tavernkit.budget._tokenizers import BundledTokenizer
from tavernkit.cards import Character, User
from tavernkit.silly_tavern import Builder, ChatMessage, Preset, WorldBook
from tavernkit.silly_tavern._chat_completion.history_messages import HistoryConverter
from tavernkit.silly_tavern._limits import CACHED_COUNTERS
from tavernkit.silly_tavern._token_counting.messages import counting_rule
from tavernkit.silly_tavern._world_info.engine import CompiledBooks
from tavernkit.stores import InMemoryVariablesStore

MOST_FILES = 80
MOST_CALLS = 7_000
"""Of a next turn of the benchmark: 300 messages, 200 lore entries, 16k context."""

BOOK = {"entries": {"0": {"uid": 0, "key": ["tower"], "content": "The tower is old."}}}


class CharacterEstimator(TokenEstimator):
    """Counts characters."""

    def estimate(self, text: str, model_hint: str | None = None) -> int:
        return len(text)


def turns() -> list[ChatMessage]:
    return [
        ChatMessage(name="Ann" if n % 2 else "Bel", mes=f"The lantern {n} burns.", is_user=n % 2 == 1)
        for n in range(20)
    ]


def builder() -> Builder:
    book = WorldBook.from_json(BOOK, name="b")
    return Builder(character=Character(name="Bel", description="A keeper."), user=User(name="Ann"), books=[book])


def test_a_next_turn_counts_only_texts_that_are_new(monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[str] = []
    count = BundledTokenizer.count
    monkeypatch.setattr(BundledTokenizer, "count", lambda self, text: (counted.append(text), count(self, text))[1])
    reused = builder()
    reused.build(history=turns(), message="Who keeps the tower?")
    first = len(counted)
    assert first == len(set(counted)) > 20
    reply = ChatMessage(name="Bel", mes="I do.")
    reused.build(history=[*turns(), reply], message="Since when?")
    assert sorted(counted[first:]) == ["I do.", "Since when?"]


def test_a_next_turn_compiles_no_book(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[object] = []
    make = CompiledBooks.__init__
    monkeypatch.setattr(
        CompiledBooks, "__init__", lambda self, *given, **named: (compiled.append(self), make(self, *given, **named))[1]
    )
    reused = builder()
    for message in ("The tower?", "And the door?", "Who has the key?"):
        reused.build(history=turns(), message=message)
    assert len(compiled) == 1


def test_a_next_turn_makes_only_messages_that_are_new(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    make = HistoryConverter._message  # pyright: ignore[reportPrivateUsage]  # counted
    monkeypatch.setattr(
        HistoryConverter,
        "_message",
        lambda self, entry, *given: (made.append(entry.text), make(self, entry, *given))[1],
    )
    reused = builder()
    first = reused.build(history=turns(), message="Who keeps the tower?")
    made.clear()
    reply = ChatMessage(name="Bel", mes="I do.")
    second = reused.build(history=[*turns(), reply], message="Since when?")
    assert made == ["Since when?", "I do."]
    old = {block.id: block for block in first.blocks if block.slot == "chatHistory"}
    assert sum(old.get(block.id) is block for block in second.blocks) >= 20


@pytest.mark.parametrize(
    "changes",
    [
        {"user": User(name="Eve")},
        {"preset": Preset.from_json({"names_behavior": 2})},
        {"preset": Preset.from_json({"names_behavior": 1})},
        {"preset": Preset.from_json({"openai_model": "gpt-4o"})},
        {"token_estimator": CharacterEstimator()},
        {"generation_type": "continue"},
    ],
    ids=lambda given: "-".join(given),
)
def test_what_is_remembered_changes_no_prompt(changes: dict[str, Any]) -> None:
    reused = builder()
    reused.build(history=turns(), message="Who keeps the tower?")
    again = reused.build(history=turns(), **changes)
    anew = builder().build(history=turns(), **changes)
    assert again.to_messages() == anew.to_messages()
    assert [block.metadata for block in again.blocks] == [block.metadata for block in anew.blocks]


def test_what_was_counted_for_many_models_is_forgotten() -> None:
    shared = builder()
    counters: list[ref[object]] = []
    for number in range(CACHED_COUNTERS + 3):
        model = f"gpt-4-{number}"
        shared.build(history=turns(), preset=Preset.from_json({"openai_model": model}))
        counters.append(ref(shared.services.counter(counting_rule("openai", model), None, print)))
    gc.collect()
    assert [counter() is None for counter in counters] == [True] * 3 + [False] * CACHED_COUNTERS


def test_macros_in_messages_are_expanded_each_turn() -> None:
    reused = builder()
    line = ChatMessage(name="Bel", mes="{{char}} has {{getvar::coins}} coins.")
    variables = InMemoryVariablesStore()
    for coins in ("3", "4"):
        variables.set("coins", coins)
        plan = reused.build(history=[line], message="Hm.", variables=variables)
        assert f"Bel has {coins} coins." in [message.content for message in plan.messages]


def test_a_next_turn_passes_through_few_files_and_functions() -> None:
    reused = Builder(**bench_st_build.inputs())
    history: list[ChatMessage] = bench_st_build.inputs()["history"]
    for turn in range(2):
        plan = reused.build(history=history, message=f"And the {turn}th door?")
        history = [*plan.chat, ChatMessage(name="Lyra", mes=f"The {turn}th lantern is lit.")]
    package = str(Path(tavernkit.__file__).parent)
    calls: list[str] = []

    def note(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(package):
            calls.append(frame.f_code.co_filename)

    sys.setprofile(note)
    try:
        reused.build(history=history, message="And the last door?")
    finally:
        sys.setprofile(None)
    assert len({*calls}) <= MOST_FILES
    assert len(calls) <= MOST_CALLS
