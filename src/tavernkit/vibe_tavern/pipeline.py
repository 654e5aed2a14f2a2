"""The order of a VibeTavern build, and its one-shot forms. No input or output happens in it."""

from __future__ import annotations

from typing import ClassVar, Self, Unpack

from tavernkit.budget.max_tokens import MaxTokens
from tavernkit.prompt.builder import BaseBuilder
from tavernkit.prompt.context import BuildState, Context
from tavernkit.prompt.inputs import Estimator
from tavernkit.prompt.pipeline import Pipeline
from tavernkit.prompt.plan import Plan
from tavernkit.vibe_tavern.context import VibeTavernContext, VibeTavernInputs, VibeTavernState
from tavernkit.vibe_tavern.steps.language_policy import LanguagePolicy
from tavernkit.vibe_tavern.steps.plan_assembly import PlanAssembly
from tavernkit.vibe_tavern.steps.prepare import Prepare


def _model_hint(state: BuildState[Context]) -> str | None:
    return state.model_hint if isinstance(state, VibeTavernState) else None


def _token_estimator(state: BuildState[Context]) -> Estimator | None:
    return state.token_estimator if isinstance(state, VibeTavernState) else None


PIPELINE: Pipeline[VibeTavernState] = Pipeline(
    Prepare(),
    PlanAssembly(),
    LanguagePolicy(),
    MaxTokens(model_hint=_model_hint, token_estimator=_token_estimator),
)
"""History and user input, the texts around them, the language policy, the budget."""


class Builder(BaseBuilder[VibeTavernContext, VibeTavernState]):
    """Builds plans with :data:`PIPELINE` (or another pipeline over the same state)."""

    context_class: ClassVar[type[Context]] = VibeTavernContext
    state_class: ClassVar[type[BuildState[Context]]] = VibeTavernState  # pyright: ignore[reportAssignmentType]  # its context is ours

    def __init__(self, pipeline: Pipeline[VibeTavernState] = PIPELINE, **inputs: Unpack[VibeTavernInputs]) -> None:
        super().__init__(pipeline, inputs)

    def make_context(self, **inputs: Unpack[VibeTavernInputs]) -> VibeTavernContext:
        """Make the frozen context of one build."""
        return self._context(inputs)

    def build(self, **inputs: Unpack[VibeTavernInputs]) -> Plan:
        """Build one plan."""
        return self.run(self.make_context(**inputs))

    def replace(self, **inputs: Unpack[VibeTavernInputs]) -> Self:
        """Return a builder with some inputs changed."""
        return self._replaced(inputs)


def build(**inputs: Unpack[VibeTavernInputs]) -> Plan:
    """Build one plan: ``build(history=chat, message="Hi", character=card)``."""
    return Builder().build(**inputs)


def to_messages(**inputs: Unpack[VibeTavernInputs]) -> object:
    """Build one plan and convert it to its ``dialect`` (``openai`` if none is given)."""
    return build(**inputs).to_messages(inputs.get("dialect") or "openai")
