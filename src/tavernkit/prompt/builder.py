"""A reusable object that builds plans."""

from __future__ import annotations

import copy
from typing import ClassVar, Generic, Self, TypeVar

from tavernkit.arguments import require
from tavernkit.errors import PipelineError
from tavernkit.prompt.context import Context
from tavernkit.prompt.pipeline import Pipeline
from tavernkit.prompt.plan import Plan
from tavernkit.prompt.state import BuildState
from tavernkit.prompt.trace import TraceCollector

ContextT = TypeVar("ContextT", bound=Context)
StateT = TypeVar("StateT", bound=BuildState[Context])


class Builder(Generic[ContextT, StateT]):
    """Inputs that stay the same over many builds, and a pipeline.

    Platforms name their context and state classes and their pipeline. What a build changes is passed to
    :meth:`build`; it wins over the builder's own inputs. A builder can be shared between threads.
    """

    context_class: ClassVar[type[Context]] = Context
    state_class: ClassVar[type[BuildState[Context]]] = BuildState

    def __init__(self, pipeline: Pipeline[StateT], **inputs: object) -> None:
        require("pipeline", pipeline, Pipeline)
        self.pipeline = pipeline
        self._inputs = dict(inputs)
        self.make_context()  # a wrong input is refused here, not at the first build

    def make_context(self, **inputs: object) -> ContextT:
        """Make the frozen context of one build."""
        return self.context_class.make(**{**self._inputs, **inputs})  # pyright: ignore[reportReturnType]  # ContextT is what context_class makes

    def make_state(self, context: ContextT) -> StateT:
        """Make the workspace of one build."""
        require("context", context, self.context_class)
        return self.state_class(context)  # pyright: ignore[reportReturnType]  # StateT is what state_class makes

    def replace(self, **inputs: object) -> Self:
        """Return a builder with some inputs changed; compiled things are shared."""
        return self._twin(self.pipeline, {**self._inputs, **inputs})

    def with_pipeline(self, pipeline: Pipeline[StateT]) -> Self:
        """Return a builder that runs another pipeline."""
        require("pipeline", pipeline, Pipeline)
        return self._twin(pipeline, self._inputs)

    def build(self, **inputs: object) -> Plan:
        """Run the pipeline over a fresh state and return the plan, with every warning and the trace on it."""
        return self.run(self.make_context(**inputs))

    def run(self, context: ContextT) -> Plan:
        """Build from a ready context."""
        require("context", context, self.context_class)
        state = self.make_state(context)
        self.pipeline.run(state)
        return finished_plan(state)

    def to_messages(self, dialect: str = "openai", **inputs: object) -> object:
        """Build and convert in one go."""
        return self.build(**{"dialect": dialect, **inputs}).to_messages(dialect)

    def _twin(self, pipeline: Pipeline[StateT], inputs: dict[str, object]) -> Self:
        twin = copy.copy(self)
        vars(twin).update(pipeline=pipeline, _inputs=inputs)
        twin.make_context()
        return twin


def finished_plan(state: BuildState[Context]) -> Plan:
    """Take the plan of a state, bringing its warnings, omissions and trace up to date."""
    if state.plan is None:
        raise PipelineError("the pipeline made no plan: one of its steps must set state.plan")
    plan = state.plan.replace(warnings=tuple(state.warnings), omissions=tuple(state.omissions))
    collector = state.context.instrumenter
    if isinstance(collector, TraceCollector):
        plan = plan.replace(trace=collector.to_trace(plan.fingerprint()))
    return plan
