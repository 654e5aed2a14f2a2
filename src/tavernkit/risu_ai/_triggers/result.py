"""The results of runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Literal

from tavernkit._dataclass import dataclass
from tavernkit._text.js_values import UNDEFINED
from tavernkit._values import FrozenJson, Json, thaw
from tavernkit.risu_ai._cbs.context import CBSContext
from tavernkit.risu_ai._objects import RisuChat
from tavernkit.risu_ai._triggers.variables import ScriptState
from tavernkit.risu_ai.errors import TriggerError
from tavernkit.stores._variables import VariablesStore

Outcome = Literal["none", "ok", "aborted", "error"]
"""``none``: there are no triggers at all. ``aborted``: an effect ended the run, it has no result. ``error``: RisuAI
would throw, or a limit was hit."""


@dataclass(frozen=True, slots=True)
class PromptAdditions:
    """Texts that triggers add to the prompt: before the last message, after it, and at the very end.

    ``elsewhere`` has those for places that do not exist; RisuAI keeps but never prints them.
    """

    start: str = ""
    historyend: str = ""
    promptend: str = ""
    elsewhere: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class TriggerEvent:
    """Something that a trigger did, requested or was refused.

    ``kind`` says what: ``variable``, ``message``, ``character``, ``skipped``, ``nested_run``, ``lua_error``, or the
    name of a host method. ``detail`` has what belongs to it.
    """

    kind: str
    detail: tuple[FrozenJson, ...] = ()
    trigger: str = ""
    """The name of the trigger."""
    effect: str = ""
    """The type of the effect."""
    refused: bool = False
    """True if the application refused it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredState:
    """What the application must store after a run, a command or an edit, whatever its outcome.

    ``context`` has the character, the chat, the personas and the settings as they are now; its variables read like
    the application's with the changes on top. ``variables`` are those changes, ``removed`` the deleted names.
    """

    context: CBSContext
    variables: Mapping[str, Json]
    removed: frozenset[str] = frozenset()

    def save_variables(self, store: VariablesStore) -> None:
        """Write the changed variables into the application's own store."""
        for name in self.removed:
            store.delete(name)
        for name, value in self.variables.items():
            store.set(name, thaw(value))


@dataclass(frozen=True, slots=True, kw_only=True)
class Reloads:
    """What RisuAI would redraw: how often the whole screen, and which single messages."""

    screen: int = 0
    messages: Mapping[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerResult:
    """The result of a run. Nothing that was passed in has changed.

    ``stored`` is what the application must store in any case: variables, character and persona are written at once.
    ``chat`` is the run's own copy of the chat: it is used only if the caller accepts it (``applied()``), and is
    unchanged unless the outcome is ``ok``. ``display_data`` is the edited text of a ``display`` or ``request``
    run. ``trigger_id`` is the current trigger id after the run.
    """

    outcome: Outcome
    """``none``, ``ok``, ``aborted`` or ``error``."""
    chat: RisuChat
    stored: StoredState
    variables: Mapping[str, Json]
    """Chat variables that the run changed."""
    removed_variables: frozenset[str] = frozenset()
    """Names of chat variables that the run removed."""
    additions: PromptAdditions = field(default_factory=PromptAdditions)
    """Texts that the run adds to the prompt."""
    tokens: int = 0
    """Tokens of those texts."""
    stop_sending: bool = False
    """True if nothing should be sent."""
    send_ai_prompt: bool = False
    """True if the model should answer again."""
    display_data: str | None = None
    temp_variables: Mapping[str, Json] | None = None
    """Temporary variables at the end of the run; None if none were given."""
    trigger_id: str | None = None
    error: TriggerError | None = None
    """Why the run ended early, if it did."""
    events: Sequence[TriggerEvent] = ()
    """What was done, requested or refused, up to a limit."""
    events_dropped: int = 0
    """How many events were left out of ``events``."""
    reloads: Reloads = field(default_factory=Reloads)
    """What RisuAI would redraw."""

    @property
    def ok(self) -> bool:
        """True if the run finished."""
        return self.outcome == "ok"

    def applied(self) -> StoredState:
        """Return what is stored after the caller accepts the run's chat, as RisuAI does for all modes except two."""
        if not self.ok:
            return self.stored
        state = ScriptState.over(self.stored.context.variables)
        state.changes = {**self.variables, **dict.fromkeys(self.removed_variables, UNDEFINED)}
        return StoredState(
            context=self.stored.context.replace(chat=self.chat, variables=state),
            variables=self.variables,
            removed=self.removed_variables,
        )


class EventLog:
    """Collects events up to a limit."""

    __slots__ = ("_limit", "dropped", "events")

    def __init__(self, limit: int) -> None:
        self.events: list[TriggerEvent] = []
        self.dropped = 0
        self._limit = limit

    def add(self, event: TriggerEvent) -> None:
        """Record an event."""
        if len(self.events) < self._limit:
            self.events.append(event)
        else:
            self.dropped += 1
