from __future__ import annotations

from tavernkit.risu_ai.triggers import TriggerEngine
from tests.conformance.adapters.risu_ai.trigger_inputs import World, error_class
from tests.conformance.runner import Case


def run(case: Case) -> object:
    world = World(case.input)
    result = TriggerEngine().command(world.context, case.input["command"], **world.options)
    actual = {"stored": world.stored(result.stored), **world.effects(result)}
    if result.error is not None:
        return {**actual, "error": error_class(result.error)}
    return {**actual, "returned": "undefined" if result.value is None else result.value}
