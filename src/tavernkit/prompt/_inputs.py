"""Inputs that builds of every platform take; each platform adds its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Literal, Protocol, TypeAlias, TypedDict, get_args

from tavernkit.cards._character import Participant
from tavernkit.cards._limits import Limits
from tavernkit.errors import Warn
from tavernkit.prompt._hooks import HookRegistry
from tavernkit.prompt._injections import InjectionRegistry
from tavernkit.prompt._trace import Instrumenter
from tavernkit.stores._variables import VariablesStore

GenerationType: TypeAlias = Literal["normal", "continue", "impersonate", "swipe", "regenerate", "quiet"]
"""What a prompt is built for: SillyTavern's generation types. RisuAI knows ``normal`` and ``continue``."""
GENERATION_TYPES: tuple[GenerationType, ...] = get_args(GenerationType)
Strategy: TypeAlias = Literal["reference", "group_order", "priority", "cache"]
"""How a prompt is made to fit: the platform's own way, by the generic trimmer, or in steps that keep a cache."""
LorePlace: TypeAlias = Literal["reference", "freeze"]
"""Where lore goes that fires by key: to its own place, or permanently into the history where it fired."""
VolatilePlace: TypeAlias = Literal["reference", "tail"]
"""Where texts go that move or change in every prompt: to their own places, or after the history."""
OnOverflow: TypeAlias = Literal["error", "return"]
"""What to do if the required parts of a prompt do not fit."""


class Estimator(Protocol):
    """Counts tokens; never raises."""

    def estimate(self, text: str, model_hint: str | None = None) -> int:
        """Return the number of tokens of a text.

        Args:
            text: The text.
            model_hint: The model to count for.
        """
        ...


class CommonInputs(TypedDict, total=False):
    """Inputs that every platform takes. All are optional."""

    type: str
    """The kind of application, for its own hooks and steps; ``app`` by default."""
    id: str | None
    """The application's own name for this build."""
    user: Participant | None
    """Who talks to the character: ``User(name="Ann", persona="A traveller.")``."""
    message: str
    """What the user says now: the text in the input box."""
    generation_type: GenerationType
    """What the prompt is built for: a ``normal`` reply, to ``continue`` the last one, and so on."""
    dialect: str | None
    """``text`` builds one prompt text; otherwise messages are built."""
    variables: VariablesStore | None
    """The variables of the chat. A build reads them and changes nothing: see ``plan.variables``."""
    macro_vars: Mapping[str, object]
    """More macros for this build: name to value."""
    injections: InjectionRegistry | None
    """Texts that the application puts into the prompt itself."""
    hooks: HookRegistry | None
    """The application's functions before and after a build."""
    token_estimator: Estimator | None
    """Counts tokens instead of the platform's own counter."""
    model_hint: str | None
    """The model whose tokens are counted, if the preset does not say."""
    llm_options: Mapping[str, object]
    """Options for the model that override the preset's."""
    clock: Callable[[], datetime]
    """Returns the current time; by default the time when the context was made."""
    seed: int | str | None
    """Makes random macros and probabilities repeatable."""
    strict: bool
    """Raise an error where a build would only warn."""
    limits: Limits
    """Limits on the work of all macros together."""
    warn: Warn | None
    """Called with every warning; the log by default."""
    instrumenter: Instrumenter | None
    """Receives events of steps: a ``TraceCollector``, or an exporter."""
    step_configs: Mapping[str, Mapping[str, object]]
    """Options of steps, by name of the step."""
    data: Mapping[str, object]
    """The application's own values, for its hooks and steps."""
