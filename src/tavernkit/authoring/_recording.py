"""Writes a first test from what happens now."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from tavernkit._values import Json, JsonObject
from tavernkit.cards._yaml_card import dump_yaml
from tavernkit.errors import Warn, log_warning
from tavernkit.lore import LoreRow
from tavernkit.prompt._plan import Plan

_ROOM = 1.1
"""How much larger than now the prompt may get before a recorded test fails."""


def record_case(
    name: str, inputs: Mapping[str, Json], plan: Plan, rows: Sequence[LoreRow], *, warn: Warn = log_warning
) -> str:
    """Write a test file with one test that a plan passes: which entries fire, and how large it may be.

    Args:
        name: The name of the test.
        inputs: The inputs of the plan, as the file writes them.
        plan: The prompt as it is now.
        rows: The entries of its lore.
        warn: Called with values that YAML cannot represent.
    """
    expect: JsonObject = {}
    for key, active in (("fires", True), ("stays_out", False)):
        titles: list[Json] = [row.title or row.id for row in rows if row.active is active]
        if titles:
            expect[key] = titles
    total = plan.explain().total_tokens
    if total is not None:
        expect["max_tokens"] = math.ceil(total * _ROOM)
    test: JsonObject = {"name": name, **inputs, "expect": expect}
    return dump_yaml({"tests": [test]}, warn)
