"""Inputs that builds of every platform take; each platform adds its own.

Among them are an application's hooks, the texts that it inserts, and who speaks in a group.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias, TypedDict, TypeVar, get_args

from tavernkit._arguments import require
from tavernkit._dataclass import dataclass
from tavernkit._values import JsonObject, is_sequence
from tavernkit.cards._character import Participant
from tavernkit.cards._limits import Limits
from tavernkit.errors import ConfigError, Warn
from tavernkit.prompt._trace import Instrumenter
from tavernkit.stores._variables import VariablesStore

if TYPE_CHECKING:
    from tavernkit.prompt._context import BuildState, Context


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


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDecision:
    """The speakers of a turn in order, with reasons. The same seed gives the same decision."""

    activated: Sequence[str] = ()
    """The speakers: SillyTavern's file names of cards, RisuAI's ids of characters."""
    generation_types: Sequence[GenerationType] = ()
    """One for each speaker."""
    strategy: str | None = None
    """The group's activation rule."""
    generation_type: GenerationType = "normal"
    """The kind of turn that was decided for."""
    is_user_input: bool = False
    """True if the user wrote a message that the speakers answer."""
    seed: int | str | None = None
    """The seed of the random choices."""
    reasons: Sequence[str] = ()
    """Why each of them speaks."""
    send_as_user: bool = False
    """True if nobody speaks and the typed text is only stored."""

    def to_dict(self) -> JsonObject:
        """The decision, ready for ``json``."""
        plain = asdict(self)
        for key in ("activated", "generation_types", "reasons"):
            plain[key] = list(plain[key])
        return plain

    @classmethod
    def from_dict(cls, value: Mapping[str, object]) -> GroupDecision:
        """Read the output of ``to_dict()``, or a decision made by the application.

        Args:
            value: The decision. ``activated_member_ids`` is read as ``activated``; missing keys get defaults, and so do
                lists that are none.
        """
        known: dict[str, object] = {key: value[key] for key in cls.__slots__ if key in value}
        if "activated_member_ids" in value:
            known.setdefault("activated", value["activated_member_ids"])
        for key in ("activated", "generation_types", "reasons"):
            if key in known:
                listed = known[key]
                several = listed if is_sequence(listed) else (listed,) if isinstance(listed, str) and listed else ()
                known[key] = tuple(str(item) for item in several)
        return cls(**known)  # pyright: ignore[reportArgumentType]  # an application's own saved values

    @property
    def fingerprint(self) -> str:
        """SHA-256 of who speaks, for traces."""
        return hashlib.sha256(json.dumps((self.activated, self.generation_types), default=list).encode()).hexdigest()


Hook: TypeAlias = Callable[["BuildState[Context]"], None]
"""Gets the state. Before a build it may change inputs (``BuildState.change_inputs()``), not blocks; after it, it may
replace ``state.plan``. Report recoverable problems with ``state.warn``."""

HookT = TypeVar("HookT", bound="Callable[..., None]")


class HookRegistry:
    """Build hooks, run in the order they were registered.

    >>> hooks = HookRegistry()
    >>> @hooks.before_build
    ... def shout(state):
    ...     state.change_inputs(message=state.context.message.upper())
    """

    def __init__(self) -> None:
        self._before: list[Hook] = []
        self._after: list[Hook] = []
        self._lock = threading.Lock()

    def before_build(self, hook: HookT) -> HookT:
        """Run ``hook`` before the build; usable as a decorator."""
        require("hook", hook, Callable[..., object])
        with self._lock:
            self._before.append(hook)
        return hook

    def after_build(self, hook: HookT) -> HookT:
        """Run ``hook`` after the build; usable as a decorator."""
        require("hook", hook, Callable[..., object])
        with self._lock:
            self._after.append(hook)
        return hook

    def run_before_build(self, state: BuildState[Context]) -> None:
        """Run the hooks registered with ``before_build()``; they may change the inputs."""
        with state.inputs_open():
            for hook in tuple(self._before):
                hook(state)

    def run_after_build(self, state: BuildState[Context]) -> None:
        """Run the hooks registered with ``after_build()``."""
        for hook in tuple(self._after):
            hook(state)

    @property
    def only_before(self) -> bool:
        """True if no hook runs after the build."""
        return not self._after


def followed_by(hooks: HookRegistry, change: Callable[[BuildState[Context]], None]) -> HookRegistry:
    """Return hooks that run before a build, and then another one.

    Args:
        hooks: The hooks; those after the build are left out.
        change: Runs after them.
    """
    both = HookRegistry()
    both.before_build(hooks.run_before_build)
    both.before_build(change)
    return both


POSITIONS = ("before", "after", "chat", "none")
"""Before the main prompt, after it, in the chat at a depth, or only scanned for lore."""

POSITION_ALIASES: Mapping[str, str] = {"before_prompt": "before", "in_prompt": "after", "in_chat": "chat"}
"""Other names for ``POSITIONS``."""

DEFAULT_DEPTH = 4

InjectionFilter: TypeAlias = Callable[["BuildState[Context]"], bool]
"""Decides for each build whether an injection applies."""


@dataclass(frozen=True, slots=True)
class Injection:
    """One injected text. ``depth`` applies only in the chat: 0 is after the last message."""

    id: str
    """The injection's name; registering the same id again replaces it."""
    content: str
    """The text."""
    position: str
    """``before`` or ``after`` the main prompt, in the ``chat`` at ``depth``, or ``none`` (only scanned for lore)."""
    role: str = "system"
    """The role of its message in the chat."""
    depth: int = DEFAULT_DEPTH
    scan: bool = False
    """True if its text is scanned for lore keys."""
    ephemeral: bool = False
    """True if it is meant for one generation; the application removes it after that."""
    filter: InjectionFilter | None = None
    """Decides for each build whether it applies; without a filter it always does."""

    @property
    def in_chat(self) -> bool:
        """True if it goes into the chat at a depth."""
        return self.position == "chat"

    def active_for(self, state: BuildState[Context]) -> bool:
        """Return what the filter says; True if there is no filter or it fails, which is reported."""
        if self.filter is None:
            return True
        try:
            return bool(self.filter(state))
        except Exception as error:  # noqa: BLE001  # the application's code: its failure must not stop a build
            state.warn(
                f"the filter of injection {self.id!r} failed ({type(error).__name__}: {error}); it counts as active"
            )
            return True


class InjectionRegistry:
    """Injections by id: registering an id again replaces it; iteration is in order of ids.

    Ephemeral injections are listed by ``ephemeral_ids`` and removed by the application after a generation.
    """

    def __init__(self) -> None:
        self._entries: dict[str, Injection] = {}
        self._lock = threading.Lock()

    def register(
        self,
        id: str,  # noqa: A002  # the word users know
        content: str | None,
        position: str = "after",
        *,
        role: str = "system",
        depth: int = DEFAULT_DEPTH,
        scan: bool = False,
        ephemeral: bool = False,
        filter: InjectionFilter | None = None,  # noqa: A002  # the word users know
    ) -> Injection:
        """Add or replace an injection; without content it is empty.

        Args:
            id: The injection's name.
            content: The text.
            position: ``before`` or ``after`` the main prompt, ``chat``, or ``none`` (only scanned for lore).
            role: The role of its message in the chat.
            depth: Messages between it and the end of the chat.
            scan: Scan its text for lore keys.
            ephemeral: It is meant for one generation.
            filter: Decides for each build whether it applies.

        Raises:
            ConfigError: There is no such position, or an argument has the wrong type.
        """
        for name, value in (("id", id), ("content", content or ""), ("position", position), ("role", role)):
            require(name, value, str)
        require("depth", depth, int)
        for name, value in (("scan", scan), ("ephemeral", ephemeral)):
            require(name, value, bool)
        require("filter", filter, Callable[..., object] | None)
        canonical = POSITION_ALIASES.get(position, position)
        if canonical not in POSITIONS:
            raise ConfigError(
                f"unknown injection position {position!r}; pass one of {', '.join(POSITIONS)}",
                code="UNKNOWN_INJECTION_POSITION",
            )
        entry = Injection(
            id=id,
            content=content or "",
            position=canonical,
            role=role,
            depth=max(depth, 0),
            scan=scan,
            ephemeral=ephemeral,
            filter=filter,
        )
        with self._lock:
            self._entries[entry.id] = entry
        return entry

    def remove(self, id: str) -> None:  # noqa: A002  # the word users know
        """Remove an injection if it exists."""
        with self._lock:
            self._entries.pop(id, None)

    def __iter__(self) -> Iterator[Injection]:
        with self._lock:
            entries = list(self._entries.values())
        return iter(sorted(entries, key=lambda entry: entry.id))

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, id: object) -> bool:  # noqa: A002  # the word users know
        return id in self._entries

    @property
    def ephemeral_ids(self) -> tuple[str, ...]:
        """Ids of the injections that are meant for one generation only."""
        return tuple(entry.id for entry in self if entry.ephemeral)
