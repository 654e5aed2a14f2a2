"""Passes: how often entries are looked at, and what is told about those that are in."""

from __future__ import annotations

import pytest

from tavernkit.errors import WarningLog
from tavernkit.risu_ai.lorebook import LorebookEngine, LorebookEntry, LorebookResult, LoreMessage, ScanInput, engine

ENGINE = LorebookEngine()


def scan(entries: list[LorebookEntry], *texts: str, **given: object) -> LorebookResult:
    messages = [LoreMessage("user", text) for text in texts]
    return ENGINE.scan(ENGINE.compile(entries), ScanInput(messages=messages, **given))  # pyright: ignore[reportArgumentType]


def test_an_entry_is_looked_at_once_a_pass_however_many_texts_name_it() -> None:
    rolls: list[float] = []

    def roll() -> float:
        rolls.append(0.9)
        return 0.9

    entries = [
        LorebookEntry(always_active=True, content="the dragon"),
        LorebookEntry(always_active=True, content="a dragon"),
        LorebookEntry(key="dragon", content="@@probability 50\nx"),
    ]
    result = scan(entries, "dragon", random=roll)
    assert len(result.actives) == 2
    assert len(rolls) == 2


def test_passes_are_limited_and_the_limit_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [LorebookEntry(key="b", content="c"), LorebookEntry(key="a", content="b")]
    log = WarningLog()
    assert len(scan(entries, "a", warn=log).actives) == 2
    assert not log.messages
    monkeypatch.setattr(engine, "MAX_PASSES", 1)
    assert len(scan(entries, "a", warn=log).actives) == 1
    assert list(log.messages) == ["lorebook: stopped after 1 passes over the entries"]


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        (LorebookEntry(always_active=True), "always active"),
        (LorebookEntry(key="dragon"), "key 'dragon' in message 0 by user"),
        (LorebookEntry(key="ghost", content="@@activate\nx"), "@@activate"),
        (LorebookEntry(always_active=True, content="@@activate\nx"), "@@activate"),
    ],
)
def test_an_entry_that_is_in_says_why(entry: LorebookEntry, reason: str) -> None:
    assert scan([entry], "dragon").explain(0).reason == reason
