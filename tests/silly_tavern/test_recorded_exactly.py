"""Recorded objects have no keys but the recorded ones; the conformance runner lets an object have more."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.conformance import runner

PARTLY_RECORDED = frozenset({"request", "overridden_prompts", "items", "token_counts", "total_tokens", "budget_left"})
"""What a recorded generation may lack."""


EXACT = (
    "build_chat",
    "build_chat_squash",
    "in_chat_injection",
    "instruct",
    "converters",
    "regex_scripts",
    "groups_activation",
)
LORE = ("world_info", "world_info_timed", "world_info_import")


@pytest.mark.parametrize("surface", EXACT + LORE)
def test_nothing_is_sent_that_was_not_recorded(surface: str) -> None:
    told = {
        case.id: found
        for case in runner.cases(f"silly_tavern/{surface}")
        if (found := list(unrecorded(case.expected, runner.run(case).actual)))
    }
    assert told == {}


@pytest.mark.parametrize("surface", ["macros_v1", "macros_v2"])
def test_no_other_variable_is_written(surface: str) -> None:
    told: dict[str, list[str]] = {}
    for case in runner.cases(f"silly_tavern/{surface}"):
        actual: Any = runner.run(case).actual
        if found := list(unrecorded(case.expected["variables"], actual["variables"])):
            told[case.id] = found
    assert told == {}


def unrecorded(expected: Any, actual: Any, where: str = "") -> Iterator[str]:
    if isinstance(expected, dict) and isinstance(actual, dict):
        generation = "messages" in expected and "items" in actual
        for key in actual:
            if key in expected:
                yield from unrecorded(expected[key], actual[key], f"{where}/{key}")
            elif not (generation and key in PARTLY_RECORDED):
                yield f"{where}/{key}"
    elif isinstance(expected, list) and isinstance(actual, (list, tuple)):
        for index, (recorded, given) in enumerate(zip(expected, actual, strict=False)):
            yield from unrecorded(recorded, given, f"{where}/{index}")
