"""Books and chats that take the time of their length, not minutes or all memory."""

from __future__ import annotations

import pytest

from tavernkit.risu_ai._limits import MAX_HITS
from tavernkit.risu_ai._lorebook import (
    ActiveLore,
    LorebookEngine,
    LorebookEntry,
    LorebookResult,
    LorebookSettings,
    LoreInjection,
    LoreMessage,
    ScanInput,
)
from tavernkit.risu_ai._prompt_template.lore_places import Positions
from tests.quickness import linear_time

COUNT = 6000


def scan(
    entries: list[LorebookEntry], texts: list[str], *, full_word: bool = False
) -> tuple[LorebookResult, list[str]]:
    warnings: list[str] = []
    settings = LorebookSettings(scan_depth=len(texts), token_budget=10**9, full_word=full_word)
    messages = [LoreMessage("user", text) for text in texts]
    with linear_time():
        result = LorebookEngine().scan(
            ScanInput(entries=entries, messages=messages, settings=settings, warn=warnings.append)
        )
    return result, warnings


@pytest.mark.parametrize("full_word", [False, True])
def test_many_entries_are_found_in_the_last_of_many_messages(full_word: bool) -> None:
    result, _ = scan([LorebookEntry(key="lamp")] * COUNT, ["dark"] * COUNT + ["a lamp"], full_word=full_word)
    assert len(result.actives) == COUNT
    assert result.hits[-1].title == f"message #{COUNT} (user)"


def test_many_entries_that_are_looked_at_in_every_pass_are_found_nowhere() -> None:
    entries = [LorebookEntry(key=f"key {number}", content="@@probability 100\nlore") for number in range(COUNT)]
    assert scan(entries, ["dark"] * COUNT)[0].actives == ()


def test_entries_call_each_other_up_in_a_long_chain() -> None:
    entries = [LorebookEntry(key=f"k{number}.", content=f"k{number + 1}.") for number in range(COUNT)]
    assert len(scan(entries, ["k0."])[0].actives) == COUNT


def test_a_chain_against_the_order_of_the_book_is_given_up() -> None:
    entries = [LorebookEntry(key=f"k{n}.", content=f"@@probability 100\nk{n - 1}.") for n in range(COUNT)]
    result, warnings = scan(entries, [f"k{COUNT - 1}."])
    assert result.actives
    assert warnings == ["lorebook: stopped after looking at entries 200000 times"]


def test_the_log_of_keys_that_exclude_an_entry_ends_somewhere() -> None:
    keys = ", ".join(["a", "b", "c"] * 1000)
    entry = LorebookEntry(key="a", content=f"@@exclude_keys_all {keys}\nlore")
    result, warnings = scan([entry], ["abc"] * COUNT)
    assert (result.actives, len(result.hits), len(warnings)) == ((), MAX_HITS, 1)


def test_regex_keys_that_take_too_long_are_given_up_together() -> None:
    entries = [LorebookEntry(key=f"/(a+)+b{number}/i", use_regex=True) for number in range(COUNT)]
    result, warnings = scan(entries, ["/" + "a" * 60])
    assert result.actives == ()
    assert warnings[-1] == "lorebook: regex keys take too long, no more of them are looked for"


def test_many_entries_go_into_one() -> None:
    injected = LorebookEntry(key="a", content="@@inject_lore target\n" + "x" * 1000)
    result, _ = scan([LorebookEntry(key="a", comment="target", content="base"), *[injected] * COUNT], ["a"])
    assert len(result.actives[0].text) == 4 + COUNT * 1001


def test_lore_that_doubles_a_text_again_and_again_is_bounded() -> None:
    doubling = LorebookEntry(key="a", content="@@inject_lore target\n@@inject_replace b\nbb$`$'")
    result, warnings = scan([LorebookEntry(key="a", comment="target", content="base"), *[doubling] * 90], ["a"])
    assert 1_000_000 < len(result.actives[0].text) < 20_000_000
    assert "is not replaced" in warnings[0]


def test_many_places_for_much_lore_stay_empty() -> None:
    warnings: list[str] = []
    entry = ActiveLore(0, "e", "x" * 100_000, pos="pt_here")
    positions = Positions([entry], warnings.append)
    assert positions.fill("{{position::here}}" * 10, "main") == "x" * 1_000_000
    assert positions.fill("a{{position::here}}" * 10_000, "main") == "a" * 10_000
    assert len(warnings) == 1
    assert positions.lore_in("{{position::there}}{{position::here}}", "main") == [entry]


def test_much_lore_goes_into_a_card() -> None:
    lore = [ActiveLore(0, "e", "x" * 1000, inject=LoreInjection("prepend", "main"))] * COUNT
    with linear_time():
        assert len(Positions(lore).fill("card", "main")) == 4 + COUNT * 1001


def test_a_child_looks_for_the_additional_keys_of_a_parent_that_nothing_reaches() -> None:
    parent = LorebookEntry(id="p", content="@@additional_keys lamp\nlore")
    child = LorebookEntry(id="p", key="b", mode="child")
    assert scan([parent, child], ["a lamp"])[0].actives[0].text == "lore"
