"""The input of a VibeTavern build, and the state that its steps share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import ClassVar, Final, cast

from tavernkit._dataclass import dataclass
from tavernkit._values import is_mapping
from tavernkit.cards._character import Participant
from tavernkit.errors import ConfigError
from tavernkit.prompt._block import Message
from tavernkit.prompt._context import WANTED, BuildState, Context
from tavernkit.prompt._inputs import CommonInputs, Estimator
from tavernkit.stores._history import HistoryLike, to_message


class _Default(Enum):
    """Marks an input that was not given, because None has another meaning."""

    DEFAULT = "default"


DEFAULT: Final = _Default.DEFAULT
"""Not given: the built-in text is used."""

Template = str | None | _Default
"""A Liquid template; None or a blank one for no text; ``DEFAULT`` for the built-in text."""


class VibeTavernInputs(CommonInputs, total=False):
    """Inputs of ``build()`` and ``Builder``."""

    character: Participant | None
    """Who answers: a card or another participant."""
    history: HistoryLike
    """The chat so far."""
    system_text: str
    """A system message of the request itself, after the texts made from the card."""
    system_template: Template
    """A Liquid template that replaces the system text made from the card."""
    post_history_template: Template
    """A Liquid template that replaces the text after the history made from the card."""
    default_model_hint: str | None
    """The model of the request, for counting tokens."""


@dataclass(frozen=True, kw_only=True)
class VibeTavernContext(Context):
    """The frozen input of one build.

    ``system_text`` is a system message of the request itself, after the texts made from the card.
    ``system_template`` and ``post_history_template`` replace the texts made from the card. ``default_model_hint`` is
    the model of the request; the application's own hint (``context["token_estimation"]["model_hint"]``) takes
    precedence.
    """

    system_text: str = ""
    system_template: Template = DEFAULT
    post_history_template: Template = DEFAULT
    default_model_hint: str | None = None

    inputs_type: ClassVar[type] = VibeTavernInputs
    wanted_inputs: ClassVar[Mapping[str, str]] = {
        **WANTED,
        **dict.fromkeys(("system_template", "post_history_template"), "a Liquid template, or None for no text"),
    }


class VibeTavernState(BuildState[VibeTavernContext]):
    """Workspace of one build, with the model and the estimator for counting tokens."""

    def __init__(self, context: VibeTavernContext) -> None:
        super().__init__(context)
        self.model_hint: str | None = context.model_hint
        self.model_hint_source: str | None = "context" if context.model_hint else None
        self.token_estimator: Estimator | None = context.token_estimator
        self.token_estimator_source: str | None = "context" if context.token_estimator else None


def history_messages(history: HistoryLike) -> list[Message]:
    """Read a history; a mapping without a role is the user's."""
    if history is None:
        return []
    if isinstance(history, (str, bytes, Mapping)) or not hasattr(history, "__iter__"):
        raise ConfigError("history must be a list of messages or a ChatHistory")
    return [_message(each) for each in cast("Iterable[object]", history)]


def _message(value: object) -> Message:
    if is_mapping(value):
        content = value.get("content")
        value = {**value, "role": value.get("role") or "user", "content": "" if content is None else content}
    return to_message(value)  # pyright: ignore[reportArgumentType]  # it refuses what it cannot read
