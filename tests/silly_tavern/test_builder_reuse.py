"""What a builder does not do again on the next turn."""

from __future__ import annotations

import pytest

from tavernkit.budget.tokenizers import BundledTokenizer
from tavernkit.cards import Character, User
from tavernkit.silly_tavern import Builder, ChatMessage, WorldBook
from tavernkit.silly_tavern.world_info.engine import CompiledBooks

BOOK = {"entries": {"0": {"uid": 0, "key": ["tower"], "content": "The tower is old."}}}


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
