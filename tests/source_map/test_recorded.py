"""Every recorded build, character by character."""

from __future__ import annotations

from collections import Counter
from itertools import islice

import pytest

from tavernkit.risu_ai import _source_texts as risu_ai_sources
from tavernkit.silly_tavern import _source_texts as silly_tavern_sources
from tests.source_map.recorded import CHAT, RISU_AI, TEXT, count, plans, problems

LEAST_KNOWN = 0.97
"""The share of characters of cards, lore, presets and chats whose place is known."""

MOST_UNNAMED = 0.1
"""The share of characters that come from nowhere: separators, names, what was lost on the way."""

EVERY = {
    "silly_tavern/build_chat": 2,
    "silly_tavern/build_chat_models": 4,
    "silly_tavern/build_text": 2,
    "silly_tavern/chat_extras": 16,
    "risu_ai/build": 3,
}
"""Surfaces of which the suite takes only some builds; ``python -m tests.source_map`` takes all."""


@pytest.mark.parametrize("surface", [*CHAT, *TEXT, *RISU_AI])
def test_every_character_has_one_place_and_stands_there(surface: str) -> None:
    total: Counter[str] = Counter()
    for case, plan in plans(surface, EVERY.get(surface, 1)):
        found = plan.source_map()
        assert found.exact, case
        assert list(islice(problems(found), 3)) == [], case
        total += count(found)
    ours = sum(total[kind] for kind in ("verbatim", "expanded", "replaced", "aligned"))
    assert total["known"] >= LEAST_KNOWN * ours
    assert total["unnamed"] <= MOST_UNNAMED * ours


@pytest.mark.parametrize("surface", ["silly_tavern/build_chat", "silly_tavern/chat_extras", "risu_ai/build"])
def test_a_map_made_of_a_part_of_the_chat_is_as_exact(surface: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Long chats are cut for their maps; recorded ones are short, so here they are cut to almost nothing."""
    for module in (silly_tavern_sources, risu_ai_sources):
        monkeypatch.setattr(module, "SHORT_CHAT", 2)
    for case, plan in plans(surface, 12):
        found = plan.source_map()
        assert found.exact, case
        assert list(islice(problems(found), 3)) == [], case
