"""Triggers that ask for too much are stopped and reported."""

from __future__ import annotations

from typing import Any

import pytest

from tavernkit.risu_ai._triggers import TriggerEngine, TriggerLimits
from tavernkit.risu_ai._triggers.limits import TriggerLimitError
from tavernkit.testing._risu_ai import ScriptedTriggerHost
from tests.risu_ai.triggers.programs import Outcome, run, setvar, trigger, world

LOOP = {"type": "v2Loop", "indent": 0}
AGAIN = {"type": "v2EndIndent", "endOfLoop": True, "indent": 1}


def stopped_by(outcome: Outcome) -> str:
    assert outcome.result.outcome == "error"
    assert outcome.result.error is not None
    assert isinstance(outcome.result.error.__cause__, TriggerLimitError)
    assert outcome.warnings
    return outcome.result.error.__cause__.limit


def concat(first: str, second: str, output: str, kind: str = "var") -> dict[str, Any]:
    fields = {"source1": first, "source1Type": kind, "source2": second, "source2Type": kind}
    return {"type": "v2ConcatString", **fields, "outputVar": output, "indent": 1}


def test_endless_loops_run_out_of_steps() -> None:
    assert stopped_by(run(trigger(LOOP, AGAIN), limits=TriggerLimits(steps=500))) == "steps"


def test_a_loop_end_without_a_loop_runs_out_of_steps() -> None:
    outcome = run(trigger(setvar("n", "1", "+="), AGAIN), limits=TriggerLimits(steps=100))
    assert stopped_by(outcome) == "steps"
    assert outcome.result.stored.variables["n"] == "50"


def test_texts_that_double_are_stopped() -> None:
    outcome = run(trigger(LOOP, concat("a", "a", "a"), AGAIN), variables={"a": "xx"})
    assert stopped_by(outcome) == "text"


def test_many_large_texts_are_stopped() -> None:
    outcome = run(
        trigger(LOOP, concat("a", "b", "c"), AGAIN),
        variables={"a": "x" * 1000, "b": "y"},
        limits=TriggerLimits(all_text=100_000),
    )
    assert stopped_by(outcome) == "all_text"


def test_lists_cannot_be_blown_up_by_an_index() -> None:
    put = {"type": "v2SetArrayVar", "var": "a", "index": "1e9", "indexType": "value", "value": "", "valueType": "value"}
    assert stopped_by(run(trigger(put), variables={"a": "[]"})) == "text"


def test_messages_are_counted() -> None:
    say = {"type": "v2Impersonate", "role": "user", "value": "x", "valueType": "value", "indent": 1}
    assert stopped_by(run(trigger(LOOP, say, AGAIN), limits=TriggerLimits(messages=50))) == "messages"


def test_lore_entries_are_counted() -> None:
    fields = {f"{name}{end}": "value" for name in ("name", "key", "content", "insertOrder") for end in ("", "Type")}
    add = {"type": "v2CreateLorebook", **fields, "indent": 1}
    assert stopped_by(run(trigger(LOOP, add, AGAIN), limits=TriggerLimits(lore=20))) == "lore"


def test_calls_of_the_host_are_counted() -> None:
    log = {"type": "v2ConsoleLog", "source": "x", "sourceType": "value", "indent": 1}
    host = ScriptedTriggerHost()
    assert stopped_by(run(trigger(LOOP, log, AGAIN), host=host, limits=TriggerLimits(host_calls=7))) == "host_calls"
    assert len(host.calls) == 7


def test_time_is_limited() -> None:
    assert stopped_by(run(trigger(LOOP, AGAIN), limits=TriggerLimits(seconds=0.0))) == "seconds"


def test_low_level_triggers_cannot_nest_forever() -> None:
    outcome = run(trigger(setvar("n", "1", "+="), {"type": "runtrigger", "value": "t"}), lowLevelAccess=True)
    assert outcome.result.ok
    assert outcome["n"] == "65"
    assert "64 deep" in outcome.warnings[0]


def test_low_level_triggers_cannot_start_runs_forever() -> None:
    call = {"type": "v2RunTrigger", "target": "none", "indent": 1}
    outcome = run(trigger(LOOP, call, AGAIN), lowLevelAccess=True, limits=TriggerLimits(steps=3000, all_nested_runs=20))
    assert stopped_by(outcome) == "steps"
    assert sum(event.kind == "nested_run" for event in outcome.result.events) == 20


def test_commands_that_run_triggers_that_run_commands_end() -> None:
    outcome = run(trigger({"type": "command", "value": "/trigger t"}))
    assert outcome.result.ok
    assert "64 deep" in outcome.warnings[0]


def test_the_log_is_bounded_and_counts_what_it_dropped() -> None:
    outcome = run(trigger(*[setvar("a", str(n)) for n in range(30)]), limits=TriggerLimits(events=10))
    assert len(outcome.result.events) == 10
    assert outcome.result.events_dropped == 20


@pytest.mark.parametrize("line", ["/send " + "x" * 200, "/comment " + "x" * 200])
def test_command_lines_are_limited_too(line: str) -> None:
    engine = TriggerEngine(limits=TriggerLimits(text=100))
    result = engine.command(world(messages=[("char", "a")]), line, warn=lambda message: None)
    assert result.error is not None
    assert [message.data for message in result.stored.context.chat.messages] == ["a"]
