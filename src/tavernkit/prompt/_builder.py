"""Reusable objects that build plans."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Generic, Self, TypeVar, Unpack

from tavernkit._arguments import require
from tavernkit.cards._character import Participant
from tavernkit.errors import PipelineError
from tavernkit.prompt._context import BuildState, Context
from tavernkit.prompt._inputs import CommonInputs
from tavernkit.prompt._pipeline import HooksStep, Pipeline
from tavernkit.prompt._plan import Plan
from tavernkit.prompt._trace import TraceCollector
from tavernkit.stores._history import HistoryLike

ContextT = TypeVar("ContextT", bound=Context)
StateT = TypeVar("StateT", bound=BuildState[Context])


class BaseBuilder(Generic[ContextT, StateT]):
    """Inputs that stay the same over many builds, and a pipeline.

    Platforms name their context and state classes, and add ``build`` and similar methods with typed inputs. Inputs of a
    build override the builder's own. A builder can be shared between threads.

    Args:
        pipeline: The steps of a build.
        inputs: Inputs of every build.
    """

    context_class: ClassVar[type[Context]] = Context
    state_class: ClassVar[type[BuildState[Context]]] = BuildState

    def __init__(self, pipeline: Pipeline[StateT], inputs: Mapping[str, object]) -> None:
        require("pipeline", pipeline, Pipeline)
        made = self.context_class.make(**inputs)
        self._made: Context | None = made
        self.pipeline = pipeline
        self._inputs = {**inputs, **_converted(made, inputs)}

    def __getstate__(self) -> dict[str, object]:
        """Compiled and cached data is not part of a pickle; it is made again."""
        kept: dict[str, object] = {name: value for name, value in vars(self).items() if name != "services"}
        return {**kept, "_made": None}

    def make_state(self, context: ContextT) -> StateT:
        """Make the workspace of one build."""
        return self.state_class(context)  # pyright: ignore[reportReturnType]  # StateT is what state_class makes

    def with_pipeline(self, pipeline: Pipeline[StateT]) -> Self:
        """Return a builder that runs another pipeline."""
        return self._copy(pipeline, self._inputs, self._made)

    def run(self, context: ContextT) -> Plan:
        """Build from a ready context: the same context gives the same plan."""
        state = self.make_state(context)
        self._steps(context).run(state)
        return finished_plan(state)

    def _steps(self, context: ContextT) -> Pipeline[StateT]:
        """Return the steps of a build: hooks run before and after a pipeline that has no step for them."""
        if context.hooks is None or HooksStep.name in self.pipeline:
            return self.pipeline
        return Pipeline(HooksStep(), *self.pipeline)

    @property
    def own_context(self) -> ContextT:
        """The context of the builder's own inputs, made when they were checked; its clock shows that time."""
        if self._made is None:
            self._made = self.context_class.make(**self._inputs)
        return self._made  # pyright: ignore[reportReturnType]  # ContextT is what context_class makes

    def _context(self, inputs: Mapping[str, object]) -> ContextT:
        self.context_class.check_inputs(inputs)
        return self.context_class(**{**self._inputs, **inputs})  # pyright: ignore[reportReturnType, reportArgumentType]  # checked; ContextT is what context_class makes

    def _replaced(self, inputs: Mapping[str, object]) -> Self:
        changed = {**self._inputs, **inputs}
        made = self.context_class.make(**changed)
        return self._copy(self.pipeline, {**changed, **_converted(made, changed)}, made)

    def _copy(self, pipeline: Pipeline[StateT], inputs: dict[str, object], made: Context | None) -> Self:
        # Not copy.copy, which uses the pickle methods: compiled data is shared.
        twin = object.__new__(type(self))
        vars(twin).update(vars(self), pipeline=pipeline, _inputs=inputs, _made=made)
        return twin


def _converted(context: Context, inputs: Mapping[str, object]) -> dict[str, object]:
    """Return the converted values of a builder's own inputs."""
    return {name: getattr(context, name) for name in context.converted_inputs if name in inputs}


class CoreInputs(CommonInputs, total=False):
    """Inputs of a build without a platform."""

    character: Participant | None
    """Who answers."""
    history: HistoryLike
    """The chat so far."""


class Builder(BaseBuilder[Context, BuildState[Context]]):
    """Builds plans with an application's own pipeline.

    Args:
        pipeline: The steps of a build.
        inputs: Inputs of every build: the fields of ``Context``.
    """

    def __init__(self, pipeline: Pipeline[BuildState[Context]], **inputs: Unpack[CoreInputs]) -> None:
        super().__init__(pipeline, inputs)

    def make_context(self, **inputs: Unpack[CoreInputs]) -> Context:
        """Make the frozen context of one build."""
        return self._context(inputs)

    def build(self, **inputs: Unpack[CoreInputs]) -> Plan:
        """Run the pipeline over a fresh state and return the plan, with every warning and the trace on it."""
        return self.run(self.make_context(**inputs))

    def replace(self, **inputs: Unpack[CoreInputs]) -> Self:
        """Return a builder with some inputs changed."""
        return self._replaced(inputs)


def finished_plan(state: BuildState[Context]) -> Plan:
    """Return the plan of a state with its warnings, omissions and trace."""
    if state.plan is None:
        raise PipelineError("the pipeline made no plan: one of its steps must set state.plan")
    plan = state.plan.replace(
        warnings=(*state.warnings, *state.log.left_out),
        omissions=tuple(state.omissions),
        variables=state.variables.changes(),
        degraded=tuple(dict.fromkeys(state.degraded)),
        again=state.again,
    )
    collector = state.context.instrumenter
    if isinstance(collector, TraceCollector):
        plan = plan.replace(trace=collector.to_trace(plan.fingerprint()))
    return plan
