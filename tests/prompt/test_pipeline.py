from __future__ import annotations

import sys
from dataclasses import dataclass, field

import pytest

from tavernkit.errors import ConfigError, MaxTokensExceededError, PipelineError, StrictModeError
from tavernkit.prompt import Block, Builder, BuildState, Context, HookRegistry, Pipeline, Plan, Step, TraceCollector
from tavernkit.prompt import _trace as trace
from tavernkit.prompt._pipeline import HooksStep

State = BuildState[Context]


@dataclass(frozen=True)
class SayConfig:
    text: str = "hello"
    options: dict[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise TypeError("text must be text")


class SayStep(Step[State, SayConfig]):
    Config = SayConfig

    def before(self, state: State) -> None:
        state.blocks.append(Block("system", self.config.text, id=self.config.text))

    def after(self, state: State) -> None:
        log = state.metadata.setdefault("after", [])
        assert isinstance(log, list)
        log.append(self.config.text)


class AssembleStep(Step[State, object]):
    def before(self, state: State) -> None:
        state.plan = Plan(blocks=state.blocks)

    def after(self, state: State) -> None:
        state.warn("late warning")


class FailStep(Step[State, object]):
    def __init__(self, config: object = None, *, error: Exception | None = None) -> None:
        super().__init__(config)
        self.error = error or RuntimeError("boom")

    def before(self, state: State) -> None:
        raise self.error


def pipeline() -> Pipeline[State]:
    return Pipeline(("first", SayStep(text="a")), ("second", SayStep(text="b")), AssembleStep())


def quiet(**inputs: object) -> Context:
    return Context.make(warn=None, **inputs)


def test_a_step_takes_its_name_from_its_class() -> None:
    assert SayStep.name == "say"
    assert type("HTTPServerStep", (SayStep,), {}).name == "http_server"
    assert pipeline().names == ("first", "second", "assemble")


def test_before_runs_in_order_and_after_in_reverse() -> None:
    state = BuildState(quiet())
    pipeline().run(state)
    assert [block.content for block in state.blocks] == ["a", "b"]
    assert state.metadata["after"] == ["b", "a"]
    assert state.current_step is None


def test_editing_returns_a_new_pipeline() -> None:
    original = pipeline()
    assert original.without("second").names == ("first", "assemble")
    assert original.insert_before("second", SayStep(text="x")).names == ("first", "say", "second", "assemble")
    assert original.insert_after("second", SayStep(), name="x").names == ("first", "second", "x", "assemble")
    assert original.append(SayStep(), name="last").names[-1] == "last"
    assert original.replace("second", SayStep(text="z"))["second"].config.text == "z"
    assert original.configure("first", text="q")["first"].config.text == "q"
    assert original.names == ("first", "second", "assemble")
    assert original["first"].config.text == "a"


def test_unknown_and_duplicate_names_are_refused_with_a_hint() -> None:
    with pytest.raises(ConfigError, match="did you mean 'second'"):
        pipeline().without("secnd")
    with pytest.raises(ConfigError, match="twice"):
        pipeline().append(SayStep(), name="first")
    with pytest.raises(ConfigError, match="Step instances"):
        Pipeline(("x", "not a step"))  # type: ignore[arg-type]


def test_unknown_options_are_refused_with_a_hint() -> None:
    with pytest.raises(ConfigError, match="did you mean 'text'") as caught:
        pipeline().configure("first", txt="x")
    assert caught.value.step == "say"
    assert caught.value.code == "UNKNOWN_STEP_OPTION"


def test_step_configs_of_the_context_win_for_one_build_and_merge_deeply() -> None:
    steps = pipeline().configure("first", options={"a": {"x": 1}})
    state = BuildState(quiet(step_configs={"First": {"text": "changed"}, "unknown": {"x": 1}}))
    steps.run(state)
    assert state.blocks[0].content == "changed"
    assert steps["first"].configured({"options": {"a": {"y": 2}}}).config.options == {"a": {"x": 1, "y": 2}}


def test_a_bad_step_config_names_its_step_and_leaves_the_state_tidy() -> None:
    state = BuildState(quiet(step_configs={"second": {"text": 5}}))
    with pytest.raises(ConfigError) as caught:
        pipeline().run(state)
    assert caught.value.step == "say"
    assert state.current_step is None


def test_an_error_of_a_step_is_wrapped_with_its_name_and_cause() -> None:
    state = BuildState(quiet())
    with pytest.raises(PipelineError, match=r"RuntimeError: boom \(step: fail\)") as caught:
        Pipeline(("outer", SayStep()), FailStep()).run(state)
    assert caught.value.step == caught.value.stage == "fail"
    assert isinstance(caught.value.__cause__, RuntimeError)


def test_a_pipeline_error_passes_as_it_is() -> None:
    error = MaxTokensExceededError(estimated_tokens=9, max_tokens=10, reserve_tokens=4, step="trimming")
    assert error.limit_tokens == 6
    with pytest.raises(MaxTokensExceededError) as caught:
        Pipeline(FailStep(error=error)).run(BuildState(quiet()))
    assert caught.value is error


def test_strict_mode_turns_a_warning_into_an_error() -> None:
    with pytest.raises(PipelineError) as caught:
        pipeline().run(BuildState(quiet(strict=True)))
    assert isinstance(caught.value.__cause__, StrictModeError)


def test_the_builder_brings_late_warnings_onto_the_plan() -> None:
    builder = Builder(pipeline(), warn=None)
    assert builder.build().warnings == ("late warning",)


def test_the_builder_refuses_unknown_inputs_at_once() -> None:
    with pytest.raises(ConfigError, match="did you mean 'message'"):
        Builder(pipeline(), mesage="hi")  # pyright: ignore[reportCallIssue]  # the mistake
    with pytest.raises(ConfigError, match="unknown input"):
        Builder(pipeline()).build(nonsense=1)  # pyright: ignore[reportCallIssue]  # the mistake
    with pytest.raises(ConfigError, match="must be a Pipeline"):
        Builder([])  # type: ignore[arg-type]


def test_a_builder_can_be_changed_without_changing_the_original() -> None:
    builder = Builder(pipeline(), message="one", warn=None)
    other = builder.replace(message="two").with_pipeline(pipeline().without("second"))
    assert builder.make_context().message == "one"
    assert other.make_context().message == "two"
    assert [block.content for block in other.build().blocks] == ["a"]
    assert len(builder.build().blocks) == 2


def test_a_pipeline_without_a_plan_says_so() -> None:
    with pytest.raises(PipelineError, match="made no plan"):
        Builder(Pipeline(SayStep())).build()


def test_the_trace_has_every_step_in_order_with_its_warnings() -> None:
    plan = Builder(pipeline(), warn=None, instrumenter=TraceCollector()).build()
    assert plan.trace is not None
    assert [step.name for step in plan.trace.steps] == ["first", "second", "assemble"]
    assert list(plan.trace.steps[2].warnings) == ["late warning"]
    assert plan.trace.success
    assert plan.trace.fingerprint == plan.fingerprint()


def test_a_collector_begins_a_new_trace_with_each_build() -> None:
    builder = Builder(pipeline(), warn=None, instrumenter=TraceCollector())
    traces = [builder.build().trace for _ in range(2)]
    assert [trace and len(trace.steps) for trace in traces] == [3, 3]
    assert [trace and trace.total_warnings for trace in traces] == [("late warning",), ("late warning",)]


def test_the_trace_marks_the_failed_step_and_all_open_ones() -> None:
    collector = TraceCollector()
    with pytest.raises(PipelineError):
        Pipeline(("outer", SayStep()), FailStep()).run(BuildState(quiet(instrumenter=collector)))
    trace = collector.to_trace()
    assert [(step.name, step.stats["error"]) for step in trace.steps] == [
        ("outer", "PipelineError"),
        ("fail", "RuntimeError"),
    ]
    assert not trace.success


def test_the_collector_refuses_payloads_it_does_not_know() -> None:
    collector = TraceCollector()
    with pytest.raises(ConfigError, match="no payload"):
        collector("stat", {"key": "a", "value": 1, "colour": "red"})
    with pytest.raises(ConfigError, match="cannot finish"):
        collector("step_finish", {"name": "x"})
    collector("something_else", {"any": "thing"})


def test_stats_go_to_the_named_open_step() -> None:
    collector = TraceCollector()
    collector("step_start", {"name": "a"})
    collector("step_start", {"name": "b"})
    collector("stat", {"key": "n", "value": 1, "step": "a"})
    collector("stat", {"key": "n", "value": 2})
    collector("step_finish", {"name": "b"})
    collector("step_finish", {"name": "a", "stats": {"m": 3}})
    assert [dict(step.stats) for step in collector.to_trace().steps] == [{"n": 1, "m": 3}, {"n": 2}]


@pytest.mark.parametrize(("before", "after"), [(True, True), (True, False), (False, True)])
def test_a_hook_may_change_the_instrumenter(before: bool, after: bool) -> None:
    first, second = TraceCollector() if before else None, TraceCollector() if after else None
    hooks = HookRegistry()

    @hooks.before_build
    def change(state: BuildState[Context]) -> None:
        state.change_inputs(instrumenter=second)

    traced = Builder(Pipeline(HooksStep(), *pipeline()), warn=None, instrumenter=first, hooks=hooks)
    trace = traced.build().trace
    assert (trace is None) == (second is None)
    if first is not None:
        assert [step.name for step in first.to_trace().steps] == ["hooks"]
    if trace is not None:
        assert [step.name for step in trace.steps] == ["first", "second", "assemble"]


def test_hooks_run_around_a_pipeline_that_has_no_step_for_them() -> None:
    hooks, seen = HookRegistry(), list[str]()
    hooks.before_build(lambda state: seen.append("before"))
    hooks.after_build(lambda state: seen.append(f"after {len(state.plan.blocks) if state.plan else 0} blocks"))
    builder = Builder(pipeline(), warn=None, hooks=hooks)
    assert builder.build().blocks
    assert seen == ["before", "after 2 blocks"]
    assert builder.pipeline.names == ("first", "second", "assemble")
    assert Builder(Pipeline(HooksStep(), *pipeline()), warn=None, hooks=hooks).build().blocks
    assert len(seen) == 4


def test_no_instrumenter_means_no_debug_work() -> None:
    def explode() -> dict[str, object]:
        raise AssertionError("lazy payload was evaluated")

    BuildState(quiet()).instrument("stat", explode, key="x")


def test_a_step_that_does_nothing_costs_two_function_calls() -> None:
    def calls(steps: int) -> int:
        pipeline: Pipeline[State] = Pipeline(*((f"step{number}", Step[State, object]()) for number in range(steps)))
        state, names = BuildState(quiet()), list[str]()
        sys.setprofile(lambda frame, event, _: names.append(frame.f_code.co_name) if event == "call" else None)
        try:
            pipeline.run(state)
        finally:
            sys.setprofile(None)
        return len(names)

    assert calls(20) - calls(10) == 20  # its `before`, and reading the context


def test_a_step_of_a_trace_takes_its_own_time_only(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter([0.0, 1.0, 3.0, 7.0])
    monkeypatch.setattr(trace.time, "perf_counter", lambda: next(seconds))
    collector = TraceCollector()
    for event, name in (("step_start", "outer"), ("step_start", "inner"), ("step_finish", "inner")):
        collector(event, {"name": name})
    collector("step_finish", {"name": "outer"})
    assert [(step.name, step.duration_ms) for step in collector.to_trace().steps] == [("outer", 5000), ("inner", 2000)]
