import pytest

from tavernkit.silly_tavern._world_info import (
    CharacterLore,
    Speaker,
    WorldBook,
    WorldInfoSettings,
    character_book_names,
    select_books,
)
from tavernkit.silly_tavern._world_info.selection import sort_by_order

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
