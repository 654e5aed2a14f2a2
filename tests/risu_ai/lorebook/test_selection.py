"""Which keys count, and that an entry that is in is not looked at again."""

from __future__ import annotations

import pytest

from tavernkit.risu_ai._lorebook import (
    LorebookEngine,
    LorebookEntry,
    LorebookResult,
    LorebookSettings,
    LoreInjection,
    LoreMessage,
    ScanInput,
)
from tavernkit.risu_ai._lorebook.result import InjectedText


def scan(entries: list[LorebookEntry], text: str) -> LorebookResult:
    return LorebookEngine().scan(ScanInput(entries=entries, messages=[LoreMessage("user", text)]))


@pytest.mark.parametrize(
    ("selective", "text", "active"),
    [(True, "dragon", 0), (True, "dragon ice", 1), (False, "dragon", 1), (False, "dragon ice", 1), (True, "ice", 0)],
)
def test_the_second_key_counts_only_for_selective_entries(selective: bool, text: str, active: int) -> None:
    entries = [LorebookEntry(key="dragon", secondary_key="ice", selective=selective)]
    assert len(scan(entries, text).actives) == active


def test_an_entry_that_is_in_is_not_called_up_again() -> None:
    entries = [LorebookEntry(key="harbour", content="a ship"), LorebookEntry(key="ship", content="the harbour")]
    result = scan(entries, "ship")
    assert sorted(each.index for each in result.actives) == [0, 1]
    assert [hit.key for hit in result.hits] == ["ship", "harbour"]


def test_a_child_without_a_parent_says_why_it_is_out() -> None:
    result = scan([LorebookEntry(key="dragon", mode="child", id="lost")], "dragon")
    assert result.explain(0).reason == "a child entry: no entry before it has its id"


def test_a_child_of_an_active_entry_says_whose_child_it_is() -> None:
    entries = [
        LorebookEntry(key="dragon", id="a", comment="Dragons", content="fire"),
        LorebookEntry(key="dragon", mode="child", id="a"),
    ]
    assert scan(entries, "dragon").explain(1).reason == "a child entry whose parent 'Dragons' is active itself"


def test_what_is_over_the_budget_says_how_much_was_left() -> None:
    entries = [
        LorebookEntry(always_active=True, content="x" * 60, order=2),
        LorebookEntry(always_active=True, content="y" * 50, order=1),
    ]
    settings = LorebookSettings(token_budget=100)
    result = LorebookEngine().scan(ScanInput(entries=entries, settings=settings))
    assert result.explain(1).reason == "over the lore budget: needs 50 tokens, 40 are left"


def test_lore_that_replaces_too_much_is_left_out_and_says_where(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tavernkit.risu_ai._lorebook.result.MAX_REPLACED", 12)
    warnings: list[str] = []
    target = InjectedText("a sword", "Swords", warnings.append)
    for new in ("b", "c", "d"):
        target.put(new, LoreInjection("replace", param="sword"))
    assert target.text == "a b"
    assert warnings == ["lorebook: too much lore replaces something in 'Swords', the rest of it is left out"]
