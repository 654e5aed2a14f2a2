"""Every recorded build, character by character."""

from __future__ import annotations

from collections import Counter
from itertools import islice

import pytest

from tests.source_map.recorded import CHAT, RISU_AI, TEXT, count, plans, problems

LEAST_KNOWN = 0.97
"""The share of characters of cards, lore, presets and chats whose place is known."""

EVERY = {"silly_tavern/chat_extras": 8}
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
    # What was lost on the way would count as added; RisuAI's own lines are a part of its short recorded prompts.
    assert total["added"] <= (0.2 if surface in RISU_AI else 0.05) * ours
