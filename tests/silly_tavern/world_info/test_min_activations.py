"""Minimum activations look further back; everything that is asked then looks as far."""

from __future__ import annotations

import pytest

from tavernkit.silly_tavern._world_info import WorldInfoResult, WorldInfoSettings
from tests.silly_tavern.world_info.scanning import make_book, scan


def contents(result: WorldInfoResult) -> list[str]:
    return [entry.content for entry in result.activated_entries]


@pytest.mark.parametrize("roll", [0.0, 0.999])
def test_groups_are_scored_by_the_messages_that_the_search_has_reached(roll: float) -> None:
    book = make_book(
        {"key": ["dragon"], "content": "one key", "group": "g"},
        {"key": ["dragon", "fire"], "content": "both keys", "group": "g"},
        {"key": ["dragon"], "content": "one key too", "group": "g"},
    )
    settings = WorldInfoSettings(depth=1, min_activations=1, use_group_scoring=True)
    result = scan(book, "hello", "hm", "dragon fire", settings=settings, random=lambda: roll)
    assert contents(result) == ["both keys"]


@pytest.mark.parametrize(("most", "found"), [(0, ["old"]), (1, []), (2, ["old"])])
def test_the_search_goes_back_one_message_beyond_its_limit_at_most(most: int, found: list[str]) -> None:
    book = make_book({"key": ["dragon"], "content": "old"})
    settings = WorldInfoSettings(depth=1, min_activations=1, min_activations_depth_max=most)
    assert contents(scan(book, "hello", "hm", "dragon", settings=settings)) == found
