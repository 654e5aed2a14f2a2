"""The text that activated entries give to the next pass, and what is told about a roll."""

from __future__ import annotations

from tavernkit.silly_tavern._world_info import WorldInfoSettings
from tests.silly_tavern.world_info.scanning import make_book, scan


def test_entries_of_one_pass_are_searched_as_lines_of_one_text() -> None:
    book = make_book(
        {"key": ["go"], "content": "alpha", "order": 2},
        {"key": ["go"], "content": "beta", "order": 1},
        {"key": ["/(alpha|beta)\\n(alpha|beta)/"], "content": "both"},
    )
    result = scan(book, "go", settings=WorldInfoSettings(recursive=True))
    assert [entry.content for entry in result.activated_entries][2:] == ["both"]


def test_an_entry_that_won_its_roll_tells_the_roll() -> None:
    book = make_book(
        {"key": ["go"], "content": "lucky", "useProbability": True, "probability": 40},
        {"key": ["go"], "content": "sure", "useProbability": True, "probability": 100},
    )
    result = scan(book, "go", random=lambda: 0.25)
    lucky, sure = (result.explain(uid) for uid in (0, 1))
    assert (lucky.verdict.rolled, sure.verdict.rolled) == (25.0, None)
    assert lucky.text.endswith("rolled 25.0 of 40%")
