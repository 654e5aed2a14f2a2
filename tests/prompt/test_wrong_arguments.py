"""Wrong arguments to the names of ``tavernkit.prompt``."""

from __future__ import annotations

from contextlib import ExitStack
from datetime import UTC, datetime

import pytest

from tavernkit import ConfigError
from tavernkit.budget import TrimReport
from tavernkit.prompt import (
    Block,
    Builder,
    BuildState,
    Context,
    EntryConditions,
    HookRegistry,
    Injection,
    InjectionRegistry,
    Message,
    NoConfig,
    Omission,
    Pipeline,
    Plan,
    PromptEntry,
    RenderedText,
    Step,
    TextSpan,
    Trace,
    TraceCollector,
    TraceStep,
)
from tests.wrong_arguments import Call, Odd, Sweep


class Nothing(Step[BuildState[Context], NoConfig]):
    def before(self, state: BuildState[Context]) -> None:
        state.plan = Plan()


NOW = datetime(2026, 1, 1, tzinfo=UTC)
BLOCK = Block(role="user", content="Hi", slot="main")
PLAN = Plan([BLOCK])
STATE = BuildState(Context())
OPEN_STATE = BuildState(Context())
OPEN = ExitStack()
OPEN.enter_context(OPEN_STATE.inputs_open())
ENTRY = PromptEntry(id="a", triggers=("normal",), conditions={"turns": 1})
PIPELINE: Pipeline[BuildState[Context]] = Pipeline(Nothing())
BUILDER: Builder[Context, BuildState[Context]] = Builder(PIPELINE)
INJECTION = Injection("a", "Hi", "chat", filter=lambda state: True)

CALLS: dict[str, Call] = {
    "Block": (Block, {"role": "user", "content": "Hi"}),
    "Block.replace": (BLOCK.replace, {"content": "Hello"}),
    "BuildState": (BuildState, {"context": Context()}),
    "BuildState.change_inputs": (OPEN_STATE.change_inputs, {"message": "Hello"}),
    "BuildState.instrument": (STATE.instrument, {"event": "stat", "lazy": dict}),
    "BuildState.omit": (STATE.omit, {"omission": Omission("prompt", "a", "empty")}),
    "BuildState.stat": (STATE.stat, {"key": "a", "value": 1}),
    "BuildState.warn": (STATE.warn, {"message": "careful"}),
    "Builder": (Builder, {"pipeline": PIPELINE, "message": "Hi"}),
    "Builder.build": (BUILDER.build, {"message": "Hi"}),
    "Builder.make_context": (BUILDER.make_context, {"message": "Hi"}),
    "Builder.make_state": (BUILDER.make_state, {"context": Context()}),
    "Builder.replace": (BUILDER.replace, {"message": "Hi"}),
    "Builder.run": (BUILDER.run, {"context": Context()}),
    "Builder.to_messages": (BUILDER.to_messages, {"message": "Hi"}),
    "Builder.with_pipeline": (BUILDER.with_pipeline, {"pipeline": PIPELINE}),
    "Context": (Context, {}),
    "Context.from_mapping": (Context.from_mapping, {"value": {"message": "Hi"}}),
    "Context.get": (Context(data={"a": 1}).get, {"key": "a"}),
    "Context.make": (Context.make, {"message": "Hi"}),
    "Context.replace": (Context().replace, {"message": "Hi"}),
    "EntryConditions": (EntryConditions, {}),
    "HookRegistry.after_build": (HookRegistry().after_build, {"hook": print}),
    "HookRegistry.before_build": (HookRegistry().before_build, {"hook": print}),
    "HookRegistry.run_after_build": (HookRegistry().run_after_build, {"state": STATE}),
    "HookRegistry.run_before_build": (HookRegistry().run_before_build, {"state": STATE}),
    "Injection": (Injection, {"id": "a", "content": "Hi", "position": "chat"}),
    "Injection.active_for": (INJECTION.active_for, {"state": STATE}),
    "InjectionRegistry.register": (InjectionRegistry().register, {"id": "a", "content": "Hi"}),
    "InjectionRegistry.remove": (InjectionRegistry().remove, {"id": "a"}),
    "Message": (Message, {"role": "user", "content": "Hi"}),
    "Message.replace": (Message("user", "Hi").replace, {"content": "Hello"}),
    "Omission": (Omission, {"kind": "prompt", "id": "a", "reason": "empty"}),
    "Pipeline": (Pipeline, {}),
    "Pipeline.append": (PIPELINE.append, {"step": Nothing(), "name": "more"}),
    "Pipeline.configure": (PIPELINE.configure, {"name": "nothing"}),
    "Pipeline.insert_after": (PIPELINE.insert_after, {"after": "nothing", "step": Nothing(), "name": "more"}),
    "Pipeline.insert_before": (PIPELINE.insert_before, {"before": "nothing", "step": Nothing(), "name": "more"}),
    "Pipeline.replace": (PIPELINE.replace, {"name": "nothing", "step": Nothing()}),
    "Pipeline.run": (PIPELINE.run, {"state": BuildState(Context())}),
    "Pipeline.without": (PIPELINE.without, {"name": "nothing"}),
    "Plan": (Plan, {}),
    "Plan.append_block": (PLAN.append_block, {"block": BLOCK}),
    "Plan.fingerprint": (PLAN.fingerprint, {}),
    "Plan.insert_after": (PLAN.insert_after, {"slot": "main", "block": BLOCK}),
    "Plan.insert_before": (PLAN.insert_before, {"slot": "main", "block": BLOCK}),
    "Plan.replace": (PLAN.replace, {"blocks": [BLOCK]}),
    "Plan.to_messages": (PLAN.to_messages, {}),
    "Plan.with_blocks": (PLAN.with_blocks, {"blocks": [BLOCK]}),
    "PromptEntry": (PromptEntry, {"id": "a"}),
    "PromptEntry.active_for": (ENTRY.active_for, {"context": None}),
    "PromptEntry.from_mapping": (PromptEntry.from_mapping, {"value": {"id": "a"}}),
    "PromptEntry.triggered_by": (ENTRY.triggered_by, {"generation_type": "normal"}),
    "RenderedText": (RenderedText, {"text": "Hi"}),
    "Step": (Nothing, {}),
    "Step.configured": (Nothing().configured, {"options": {}}),
    "TextSpan": (TextSpan, {"start": 0, "end": 2, "block_id": "a"}),
    "Trace": (Trace, {"steps": [], "fingerprint": None, "started_at": NOW, "finished_at": NOW}),
    "TraceCollector.to_trace": (TraceCollector().to_trace, {}),
    "TraceStep": (TraceStep, {"name": "a", "duration_ms": 0.5}),
}

UNCALLED = {
    "Explanation": "a result: Plan.explain makes it",
    "Step.after": "called by pipelines; the step's author says what its state is",
    "Step.before": "called by pipelines; the step's author says what its state is",
}

ANYTHING = {
    "BuildState.stat.value": "a counter's value is the step's",
    "Context.get.default": "whatever the caller wants back",
}


SWEEP = Sweep("tavernkit.prompt", CALLS, UNCALLED, ANYTHING)


def test_every_public_name_is_called() -> None:
    SWEEP.assert_complete()


@pytest.mark.parametrize("name", CALLS)
def test_right_arguments_are_taken(name: str) -> None:
    SWEEP.call(name)


@pytest.mark.parametrize(("name", "parameter"), SWEEP.pairs())
def test_wrong_arguments_are_refused_by_name(name: str, parameter: str) -> None:
    SWEEP.assert_refused(name, parameter)


def test_a_collector_takes_only_events() -> None:
    for event, payload, told in ((Odd(), {}, "event"), ("stat", Odd(), "payload")):
        with pytest.raises(ConfigError, match=f"^{told} must be"):
            TraceCollector()(event, payload)  # pyright: ignore[reportArgumentType]  # the mistake


def test_a_pipeline_says_what_its_steps_are() -> None:
    for wrong in ("x", ("a", "b"), ("a", Nothing(), 3), (5, Nothing())):
        with pytest.raises(ConfigError, match=r"a step|steps must be Step instances, or pairs of a name and one"):
            Pipeline(wrong)  # pyright: ignore[reportArgumentType]  # the mistake
    with pytest.raises(ConfigError, match="name must be text, not int 5"):
        PIPELINE[5]  # pyright: ignore[reportArgumentType]  # the mistake


def test_a_plan_takes_blocks_that_are_made_while_they_are_read() -> None:
    assert Plan(block for block in [BLOCK]).blocks == (BLOCK,)  # pyright: ignore[reportArgumentType]  # taken, too
    with pytest.raises(ConfigError, match=r"^Plan\.blocks must be a list of Blocks, not tuple"):
        Plan(iter([Odd()]))  # pyright: ignore[reportArgumentType]  # the mistake


def test_a_plan_takes_results_that_look_like_results() -> None:
    report = TrimReport(strategy="priority", budget_tokens=1, initial_tokens=1, final_tokens=1)
    assert PLAN.replace(trim_report=report).trim_report is report
    with pytest.raises(ConfigError, match=r"Plan\.lore_result must be a LoreResult \(an object with"):
        PLAN.replace(lore_result=report)
