from __future__ import annotations

from tavernkit.risu_ai.triggers import TriggerEngine
from tests.conformance.adapters.risu_ai.trigger_inputs import World
from tests.conformance.runner import Case


def run(case: Case) -> object:
    given = case.input
    world = World(given)
    result = TriggerEngine().run(
        world.context,
        given["mode"],
        name=given.get("manualName", ""),
        trigger_id=given.get("triggerId"),
        display_data=given.get("displayData"),
        temp_variables=given.get("tempVars"),
        recursion=given.get("recursiveCount", 0),
        **world.options,
    )
    return world.trigger(result)
