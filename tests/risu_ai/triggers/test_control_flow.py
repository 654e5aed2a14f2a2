"""Blocks, loops and local variables against an interpreter that looks for the ends of blocks step by step."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tavernkit._text.js_values import to_number
from tavernkit.risu_ai._triggers import TriggerLimits
from tests.risu_ai.triggers.programs import run, trigger

STEPS = 400
TYPES = (
    *("v2ConcatString", "v2ConcatString", "v2ConcatString", "v2DeclareLocalVar", "v2If", "v2If", "v2Else", "v2Loop"),
    *("v2EndIndent", "v2EndIndent", "v2LoopNTimes", "v2LoopNTimes", "v2BreakLoop", "v2StopTrigger"),
)
OPENERS = ("v2If", "v2Else", "v2Loop", "v2LoopNTimes")


class TooManyStepsError(Exception):
    pass


class Naive:
    """Runs one trigger. ``v2ConcatString`` appends a text to a variable here."""

    def __init__(self, effects: list[dict[str, Any]]) -> None:
        self.effects = effects
        self.variables: dict[str, str] = {}
        self.scopes: dict[float, dict[str, str]] = {}
        self.counters: dict[int, int] = {}
        self.indent: float = 0

    def run(self) -> dict[str, str]:
        place = 0
        for _ in range(STEPS - 2):
            if place >= len(self.effects):
                return self.variables
            effect = self.effects[place]
            if effect.get("indent", 0) >= 0:
                self.indent = effect.get("indent", 0)
            place = self.step(place, effect, effect.get("indent"))
        raise TooManyStepsError

    def step(self, place: int, effect: dict[str, Any], indent: float | None) -> int:
        """Carry out an effect, and return the place of the next one."""
        name, end = effect["type"], len(self.effects)
        match name:
            case "v2ConcatString":
                (self.scope(effect["outputVar"], self.indent) or self.variables)[effect["outputVar"]] = (
                    self.read(effect["source1"]) + effect["source2"]
                )
            case "v2DeclareLocalVar":
                scope = self.scope(effect["var"], indent or 0)
                (self.scopes.setdefault(indent or 0, {}) if scope is None else scope)[effect["var"]] = effect["value"]
            case "v2If" | "v2Else" if name == "v2Else" or self.read(effect["source"]) != effect["target"]:
                stop = self.find(place, lambda each: indent is not None and each.get("indent") == indent + 1)
                after = self.effects[stop + 1] if stop + 1 < end else {}
                is_other = name == "v2If" and after.get("type") == "v2Else" and after.get("indent") == indent
                return stop + 2 if is_other else stop + 1
            case "v2EndIndent":
                target = self.loop_start(place, indent) if effect["endOfLoop"] else place + 1
                self.scopes = {each: held for each, held in self.scopes.items() if indent is None or each < indent}
                return target
            case "v2BreakLoop":
                return self.find(place, lambda each: each["endOfLoop"]) + 1
            case "v2StopTrigger":
                return end
            case _:
                pass
        return place + 1

    def find(self, place: int, wanted: Callable[[dict[str, Any]], bool]) -> int:
        """Find the next end of a block that is wanted."""
        after = range(place + 1, len(self.effects))
        ends = (each for each in after if self.effects[each]["type"] == "v2EndIndent" and wanted(self.effects[each]))
        return next(ends, len(self.effects))

    def loop_start(self, place: int, indent: float | None) -> int:
        for start in range(place - 1, -1, -1):
            opener = self.effects[start]
            if indent is None or opener.get("indent") != indent - 1:
                continue
            if opener["type"] == "v2Loop":
                return start + 1
            if opener["type"] == "v2LoopNTimes":
                self.counters[start] = self.counters.get(start, 0) + 1
                times = to_number(opener["value"])
                return start + 1 if self.counters[start] < (0 if times != times else times) else place + 1
        return 0

    def scope(self, name: str, indent: float) -> dict[str, str] | None:
        places = sorted((each for each in self.scopes if 0 <= each <= indent), reverse=True)
        return next((self.scopes[each] for each in places if name in self.scopes[each]), None)

    def read(self, name: str) -> str:
        return (self.scope(name, self.indent) or self.variables).get(name, "null")


def make_effects(dice: random.Random) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = []
    depth = 0
    for number in range(dice.randint(2, 14)):
        name = dice.choice(TYPES)
        near = (depth, depth, depth, depth, depth + 1, depth - 1, None)
        indent = depth if name in OPENERS else dice.choice(near)
        variable = dice.choice("ab")
        effect: dict[str, Any] = {"type": name, "endOfLoop": dice.random() < 0.5}
        effect |= {"source1": variable, "source2": str(number), "source2Type": "value", "outputVar": variable}
        effect |= {"var": variable, "source": variable, "condition": "≡", "targetType": "value", "valueType": "value"}
        effect["target"] = dice.choice(("null", "null0", "1", f"L{number - 2}"))
        effect["value"] = dice.choice(("0", "1", "2", "3", "2.5", "x")) if name == "v2LoopNTimes" else f"L{number}"
        if indent is not None:
            effect["indent"] = indent
        depth = max(depth + (name in OPENERS) - (name == "v2EndIndent"), 0)
        made.append(effect)
    return made


@given(st.integers(0, 2**40))
def test_blocks_and_loops_go_where_a_naive_interpreter_goes(seed: int) -> None:
    effects = make_effects(random.Random(seed))
    outcome = run(trigger(*effects), limits=TriggerLimits(steps=STEPS))
    try:
        expected = Naive(effects).run()
    except TooManyStepsError:
        assert outcome.result.outcome == "error"
    else:
        assert outcome.result.ok
        assert outcome.result.variables == expected


@pytest.mark.parametrize("indent", [-1, "deep", None])
def test_an_indent_that_means_nothing_leaves_local_variables_visible(indent: object) -> None:
    read = {"type": "v2SetVar", "operator": "=", "var": "seen", "value": "a", "valueType": "var"}
    declare = {"type": "v2DeclareLocalVar", "var": "a", "value": "1", "valueType": "value", "indent": 1}
    assert run(trigger(declare, {**read, "indent": indent}))["seen"] == "1"
    assert run(trigger(declare, read))["seen"] == "null"  # without an indent, it counts as 0
