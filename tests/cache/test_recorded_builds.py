"""Every recorded scene can be built so that it keeps a cache, within the budget, and once more with the same bytes."""

from __future__ import annotations

from typing import Any

import pytest

from tavernkit._values import is_mapping
from tavernkit.prompt import Plan
from tavernkit.silly_tavern import Builder, ChatMetadata, ChatPlan
from tests.conformance import runner
from tests.conformance.adapters.silly_tavern.build_chat import inputs

BUILDER = Builder()
CASES = [case for case in runner.cases("silly_tavern/build_chat") if "generations" not in case.expected]
UNREACHED_NOTE = "silly_tavern-build_chat-0270"
"""A note at a depth that SillyTavern does not get to: after the chat it would leave no room for messages."""


def built(given: Any, **changes: Any) -> ChatPlan:
    everything: Any = {**inputs(given), "on_overflow": "return", "warn": None, "seed": 1, **changes}
    return BUILDER.build(**everything)


def history(plan: Plan) -> int:
    return sum(is_mapping(block.source) and block.source.get("kind") == "history" for block in plan.enabled_blocks)


def texts(plan: Plan) -> list[str]:
    return [block.content for block in plan.enabled_blocks]


@pytest.mark.parametrize(
    "case",
    [case for place, case in enumerate(CASES) if place % 40 == 0 or case.id == UNREACHED_NOTE],
    ids=lambda case: case.id,
)
def test_a_recorded_scene(case: runner.Case) -> None:
    keep = {"strategy": "cache", "lore": "freeze", "volatile": "tail"}
    reference, kept = built(case.input), built(case.input, **keep)
    metadata = inputs(case.input).get("chat_metadata") or ChatMetadata()
    header = {**metadata.to_json(), **kept.metadata_changes}
    assert texts(built(case.input, **keep, chat_metadata=header)) == texts(kept)
    if reference.overflow is None and kept.overflow is None:
        assert kept.trim_report is not None
        assert kept.trim_report.final_tokens <= kept.trim_report.budget_tokens
        assert history(kept) >= history(reference) / 2
