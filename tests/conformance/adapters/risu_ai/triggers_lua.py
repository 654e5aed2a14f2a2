from __future__ import annotations

from typing import Any

from tests.conformance.adapters.risu_ai import trigger_calls
from tests.conformance.runner import Case


def run(case: Case) -> object:
    actual: Any = trigger_calls.run(case)
    return {"steps": [awake(step) for step in actual["steps"]]} if "steps" in actual else awake(actual)


def awake(actual: dict[str, Any]) -> dict[str, Any]:
    """What Lua sleeps was not recorded."""
    return {**actual, "calls": [call for call in actual.get("calls", ()) if call[0] != "sleep"]}
