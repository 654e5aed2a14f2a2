from __future__ import annotations

import pytest

from tavernkit.silly_tavern._world_info import (
    CharacterLore,
    Speaker,
    WorldBook,
    WorldInfoSettings,
    character_book_names,
    select_books,
)
from tavernkit.silly_tavern._world_info.selection import TokenBudget, sort_by_order, token_limit

LIBRARY = {name: WorldBook(name, {"entries": {}}) for name in "ABCD"}


def test_fresh_settings_differ_from_those_of_a_file_without_keys() -> None:
    assert WorldInfoSettings().recursive
    assert WorldInfoSettings().match_whole_words
    assert WorldInfoSettings.from_json({}) == WorldInfoSettings(recursive=False, match_whole_words=False)


def test_settings_are_read_with_selection() -> None:
    settings = WorldInfoSettings.from_json(
        {
            "world_info_depth": "7",
            "world_info_budget": 250,
            "world_info_recursive": 1,
            "world_info": {
                "globalSelect": ["A", 5],
                "charLore": [{"name": "Ann", "extraBooks": ["B"]}, None, {"extraBooks": "x"}],
            },
        }
    )
    assert (settings.depth, settings.budget, settings.recursive) == (7, 25, True)
    assert settings.global_select == ("A",)
    assert settings.character_lore == (CharacterLore("Ann", ("B",)), CharacterLore("", ()))


def test_setting_that_is_no_number_is_reported() -> None:
    warnings: list[str] = []
    assert WorldInfoSettings.from_json({"world_info_depth": "deep"}, warn=warnings.append).depth == 2
    assert "world_info_depth" in warnings[0]


def test_a_book_counts_for_one_source() -> None:
    a, b, c, d = (LIBRARY[name] for name in "ABCD")
    selected = select_books(global_=[a], character=[a, b, c, d, d], chat=[b, a], persona=[c, b])
    assert [[book.name for book in books] for books in (selected.global_, selected.character)] == [["A"], ["D"]]
    assert [[book.name for book in books] for books in (selected.chat, selected.persona)] == [["B"], ["C"]]


def test_books_of_a_character() -> None:
    lore = [CharacterLore("Ann.v2", ("B", "A")), CharacterLore("Bo", ("C",))]
    assert character_book_names("A", "Ann.v2.png", lore) == ("A", "B")
    assert character_book_names(None, "Ann", lore) == ()
    assert character_book_names("", None, lore) == ()
    assert Speaker("Ann.v2.png").name == "Ann.v2"
    assert Speaker("Ann.").name == "Ann."
    assert character_book_names(None, "Bo.png", [*lore, CharacterLore("Bo", ("D",))]) == ("C",)


@pytest.mark.parametrize(
    ("orders", "expected"),
    [
        ([1, 3, 2], [1, 2, 0]),
        ([1, 1, 1], [0, 1, 2]),
        ([float("nan"), 5, 1], [0, 1, 2]),
        ([1, 5, float("nan")], [1, 0, 2]),
        ([float("inf"), float("-inf"), 0], [0, 2, 1]),
    ],
)
def test_order_is_descending_and_stable(orders: list[float], expected: list[int]) -> None:
    assert sort_by_order(range(len(orders)), orders) == expected


def test_limit_is_rounded_half_up_and_at_least_one() -> None:
    assert token_limit(WorldInfoSettings(budget=25), 10) == 3
    assert token_limit(WorldInfoSettings(budget=0), 10) == 1
    assert token_limit(WorldInfoSettings(budget=50, budget_cap=3), 10) == 3
    assert token_limit(WorldInfoSettings(budget=50, budget_cap=30), 10) == 5


class Counting:
    def __init__(self, tokens_per_character: float) -> None:
        self.calls = 0
        self._rate = tokens_per_character

    def __call__(self, text: str) -> int:
        self.calls += 1
        return int(len(text) * self._rate)


def reach(budget: TokenBudget, text: str) -> int:
    """How many texts fit."""
    budget.begin_pass("")
    for number in range(10_000):
        budget.add(text)
        if budget.is_exceeded():
            return number
    raise AssertionError("the limit is never reached")


def test_counting_is_put_off_while_there_is_room() -> None:
    count = Counting(0.25)
    assert reach(TokenBudget(10_000, count), "x" * 40) == 999
    assert count.calls < 100


def test_a_counter_that_counts_more_than_one_token_a_byte_is_asked_every_time() -> None:
    count = Counting(20)
    assert reach(TokenBudget(100_000, count), "x" * 40) == 124
    assert count.calls == 125


def test_what_the_last_entry_needed_and_what_was_left() -> None:
    budget = TokenBudget(10, len)
    budget.begin_pass("abc")
    budget.add("1234")
    assert not budget.is_exceeded()
    budget.add("56789")
    assert budget.is_exceeded()
    assert budget.last_entry() == (5, 3)
