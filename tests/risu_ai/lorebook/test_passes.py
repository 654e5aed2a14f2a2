"""Passes: how often entries are looked at, and what is reported about those that are in."""

from __future__ import annotations

import pytest

from tavernkit.errors import WarningLog
from tavernkit.risu_ai._lorebook import (
    LorebookEngine,
    LorebookEntry,
    LorebookResult,
    LorebookSettings,
    LoreMessage,
    ScanInput,
    engine,
)

ENGINE = LorebookEngine()


def scan(entries: list[LorebookEntry], *texts: str, **given: object) -> LorebookResult:
    messages = [LoreMessage("user", text) for text in texts]
    return ENGINE.scan(ScanInput(entries=entries, messages=messages, **given))  # pyright: ignore[reportArgumentType]


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


def test_keys_are_logged_once_a_pass_however_many_texts_name_them() -> None:
    entries = [
        LorebookEntry(always_active=True, content="the dragon"),
        LorebookEntry(key="dragon", secondary_key="ice", selective=True),
    ]
    result = scan(entries, "dragon")
    assert [(hit.source, hit.key) for hit in result.hits] == [("message 0 by user", "dragon")] * 2


def test_a_text_calls_up_others_whatever_else_it_names() -> None:
    entries = [LorebookEntry(key=key, content="ant bee cat dog") for key in ("ant", "bee", "cat", "dog")]
    assert len(scan(entries, "bee").actives) == 4


def test_an_entry_called_up_by_a_later_one_waits_for_the_next_pass() -> None:
    entries = [
        LorebookEntry(key="ghost", comment="called up"),
        LorebookEntry(key="dragon", comment="calls", content="ghost"),
        LorebookEntry(always_active=True, comment="last"),
    ]
    result = scan(entries, "dragon")
    assert [lore.source for lore in reversed(result.actives)] == ["calls", "last", "called up"]


def test_an_entry_that_gets_in_later_has_no_reason_to_be_out() -> None:
    entries = [
        LorebookEntry(key="ghost", content="@@match_partial_word\nx"),
        LorebookEntry(key="dragon", content="ghost"),
    ]
    result = scan(entries, "dragon")
    assert len(result.actives) == 2
    assert not result.reasons


@pytest.mark.parametrize(("budget", "reported"), [(12.5, 12), (float("inf"), 0)])
def test_the_budget_is_reported_in_whole_tokens(budget: float, reported: int) -> None:
    assert scan([], settings=LorebookSettings(token_budget=budget)).budget == reported


def test_passes_are_limited_and_the_limit_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
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
        (LorebookEntry(key="dragon"), "key 'dragon' in message #0 (user)"),
        (LorebookEntry(key="ghost", content="@@activate\nx"), "@@activate"),
        (LorebookEntry(always_active=True, content="@@activate\nx"), "@@activate"),
    ],
)
def test_an_entry_that_is_in_says_why(entry: LorebookEntry, reason: str) -> None:
    assert scan([entry], "dragon").explain(0).reason == reason
