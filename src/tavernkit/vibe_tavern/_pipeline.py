"""The pipeline of a VibeTavern build, and functions that run it once. It does no input or output."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import ClassVar, Self, Unpack

from tavernkit.budget._inspector import MaxTokens
from tavernkit.cards._character import Character, Participant
from tavernkit.prompt._block import Message
from tavernkit.prompt._builder import BaseBuilder, finished_plan
from tavernkit.prompt._context import BuildState, Context
from tavernkit.prompt._inputs import Estimator
from tavernkit.prompt._pipeline import Pipeline
from tavernkit.prompt._plan import Plan
from tavernkit.prompt._source_mapping import TracedBuild
from tavernkit.prompt._traced_inputs import traced_character, traced_json, traced_text, traced_user
from tavernkit.vibe_tavern._context import VibeTavernContext, VibeTavernInputs, VibeTavernState
from tavernkit.vibe_tavern._steps import LanguagePolicy, PlanAssembly, Prepare


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
    """Builds plans with ``PIPELINE`` (or another pipeline over the same state).

    Args:
        pipeline: The steps of a build.
        inputs: Inputs of every build.
    """

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

    def run(self, context: VibeTavernContext) -> Plan:
        """Build from a ready context: the same context gives the same plan."""
        state = self.make_state(context)
        state.again = partial(self._trace, context, tuple(context.history))
        self._steps(context).run(state)
        return finished_plan(state)

    def _trace(self, context: VibeTavernContext, history: Sequence[Message], _plan: Plan) -> TracedBuild:
        """Build a context again with traced texts."""
        state = self.make_state(traced_context(context, history))
        self._steps(context).run(state)
        return TracedBuild(finished_plan(state))

    def replace(self, **inputs: Unpack[VibeTavernInputs]) -> Self:
        """Return a builder with some inputs changed."""
        return self._replaced(inputs)


def traced_context(context: VibeTavernContext, history: Sequence[Message]) -> VibeTavernContext:
    """Return a context with traced texts, without warnings or checks; ``history`` is what the build saw."""
    character = context.character
    templates = {
        name: traced_text(template, "template", name, "")
        for name, template in (
            ("system_template", context.system_template),
            ("post_history_template", context.post_history_template),
        )
        if isinstance(template, str)
    }
    return context.replace(
        strict=False,
        warn=None,
        instrumenter=None,
        character=traced_character(character) if isinstance(character, Character) else _traced(character),
        user=_traced(context.user),
        history=[
            message.replace(content=traced_text(message.content, "chat", "chat", f"/{index}/content", message.role))
            for index, message in enumerate(history)
        ],
        message=traced_text(context.message, "message", "", ""),
        system_text=traced_text(context.system_text, "system text", "", ""),
        data=traced_json(context.data, "data", "", ""),
        **templates,
    )


def _traced(participant: Participant | None) -> Participant | None:
    return traced_user(participant) if participant is not None else None


def build(**inputs: Unpack[VibeTavernInputs]) -> Plan:
    """Build one plan: ``build(history=chat, message="Hi", character=card)``."""
    return Builder().build(**inputs)


def to_messages(**inputs: Unpack[VibeTavernInputs]) -> object:
    """Build one plan and convert it to its ``dialect`` (``openai`` if none is given)."""
    return build(**inputs).to_messages(inputs.get("dialect") or "openai")
