"""The context of a build, and the state that its steps share."""

from __future__ import annotations

import copy
import dataclasses
import re
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field
from datetime import UTC, datetime
from functools import cache, cached_property, partial
from random import Random, getrandbits
from typing import TYPE_CHECKING, ClassVar, Final, Generic, Self, TypeVar

from tavernkit._arguments import check_values
from tavernkit._dataclass import dataclass
from tavernkit._macros import BuildBudget, size_of
from tavernkit._values import (
    EMPTY_OBJECT,
    FrozenJson,
    FrozenObject,
    Json,
    freeze,
    freeze_object,
    is_mapping,
    thaw_object,
)
from tavernkit.cards._character import Participant
from tavernkit.cards._limits import DEFAULT_LIMITS, Limits
from tavernkit.errors import MAX_WARNINGS, ConfigError, StrictModeError, Warn, WarningCounts, log_warning
from tavernkit.prompt._block import Block, Omission
from tavernkit.prompt._inputs import CommonInputs, Estimator, GenerationType, HookRegistry, InjectionRegistry
from tavernkit.prompt._trace import Instrumenter
from tavernkit.stores._history import ChatHistory, wrap_history
from tavernkit.stores._variables import InMemoryVariablesStore, VariablesOverlay, VariablesStore

if TYPE_CHECKING:
    from tavernkit.prompt._plan import Plan
    from tavernkit.prompt._source_mapping import Again


_ACRONYM_END = re.compile(r"(?<=[A-Z])(?=[A-Z][a-z])")
_WORD_END = re.compile(r"([a-z0-9])([A-Z])")


def underscore(key: str) -> str:
    """Write a key in ``snake_case``; the ``::`` of nested names becomes ``/``."""
    key = _ACRONYM_END.sub("_", key.replace("::", "/"))
    return _WORD_END.sub(r"\1_\2", key).replace("-", "_").lower()


def random_numbers(seed: int | str) -> Callable[[], float]:
    """Return a source of random numbers that depends only on the seed, which may be any text."""
    return Random(seed.encode("utf-8", "surrogatepass") if isinstance(seed, str) else seed).random


REFERENCE: Final = "reference"
CACHE: Final = "cache"
FREEZE: Final = "freeze"
TAIL: Final = "tail"


@dataclass(frozen=True, slots=True)
class FixedClock:
    """A stopped clock: every build of a context sees the same time."""

    moment: datetime = field(default_factory=lambda: datetime.now(UTC))

    def __call__(self) -> datetime:
        """Return the moment."""
        return self.moment


WANTED: Mapping[str, str] = {
    "character": "a Character, such as tk.load(path).character",
    "user": "a User, such as User(name='Ann')",
}


@dataclass(frozen=True, kw_only=True)
class Context:
    """The frozen input of one build; each platform adds its own typed fields. ``CommonInputs`` describes the fields.

    Everything that a build needs from outside is in here (including time and seed), so a build is a pure function of
    it: the same context gives the same bytes.
    ``step_configs`` overrides options of steps by name for this build; ``data`` is the application's own, read with
    ``context["key"]``. ``limits`` bounds the work of all macros together.
    """

    type: str = "app"
    id: str | None = None
    character: Participant | None = None
    """The character that the model plays."""
    user: Participant | None = None
    history: ChatHistory = field(default_factory=lambda: wrap_history(None))
    """The chat so far."""
    message: str = ""
    generation_type: GenerationType = "normal"
    dialect: str | None = None
    variables: VariablesStore | None = None
    macro_vars: Mapping[str, object] = field(default_factory=lambda: EMPTY_OBJECT)
    injections: InjectionRegistry | None = None
    hooks: HookRegistry | None = None
    token_estimator: Estimator | None = None
    model_hint: str | None = None
    llm_options: FrozenObject = field(default_factory=lambda: EMPTY_OBJECT)
    clock: Callable[[], datetime] = field(default_factory=FixedClock)
    seed: int | str | None = None
    strict: bool = False
    limits: Limits = DEFAULT_LIMITS
    warn: Warn | None = log_warning
    instrumenter: Instrumenter | None = None
    step_configs: Mapping[str, Mapping[str, object]] = field(default_factory=lambda: EMPTY_STEP_CONFIGS)
    data: FrozenObject = field(default_factory=lambda: EMPTY_OBJECT)

    drawn_seed: int = field(init=False, repr=False, compare=False, default_factory=lambda: getrandbits(64))
    """The seed of builds without a seed or random numbers of their own."""

    inputs_type: ClassVar[type] = CommonInputs
    """The typed dictionary of all inputs of this context."""
    wanted_inputs: ClassVar[Mapping[str, str]] = WANTED
    """What error messages ask for if the name of an input's type does not help."""
    converted_inputs: ClassVar[tuple[str, ...]] = ()
    """Inputs that builders convert once, so that compiled data, which belongs to objects, stays valid."""

    def __post_init__(self) -> None:
        """Read the history, and freeze what the build must not see change."""
        set_field = object.__setattr__
        set_field(self, "step_configs", normalize_step_configs(self.step_configs))
        set_field(self, "history", wrap_history(self.history))
        set_field(self, "macro_vars", {str(key).lower(): value for key, value in self.macro_vars.items()})
        set_field(self, "llm_options", freeze_object(self.llm_options))
        if self.data:
            keys = ((underscore(str(key)), value) for key, value in self.data.items())
            set_field(self, "data", freeze_object({key: freeze(value) for key, value in keys if key.strip()}))

    @classmethod
    def from_mapping(cls, value: Mapping[str, object]) -> Self:
        """Make a context from a mapping: keys that are not fields go into ``data``.

        ``module_configs`` is another name for ``step_configs``.
        """
        names = cls.input_names()
        fields: dict[str, object] = {}
        data: dict[str, object] = {}
        for key, item in value.items():
            name = underscore(str(key))
            (fields if name in names else data)[name] = item
        if (configs := data.pop("module_configs", None)) is not None:
            fields.setdefault("step_configs", configs)
        return cls.make(**{"data": data, **fields})

    @classmethod
    def input_names(cls) -> frozenset[str]:
        """Names of all inputs of this context."""
        return _input_names(cls)

    @classmethod
    def make(cls, **inputs: object) -> Self:
        """Make a context from keyword inputs.

        Raises:
            ConfigError: An input is unknown (the nearest known name is suggested) or has the wrong type.
        """
        cls.check_inputs(inputs)
        return cls(**inputs)  # pyright: ignore[reportArgumentType]  # names and types are checked above

    def replace(self, **changes: object) -> Self:
        """Return a changed copy."""
        self._refuse_unknown(changes)
        changed = dataclasses.replace(self, **changes)  # pyright: ignore[reportArgumentType]  # the callers are typed
        object.__setattr__(changed, "drawn_seed", self.drawn_seed)
        return changed

    __replace__ = replace

    @classmethod
    def check_inputs(cls, inputs: Mapping[str, object]) -> None:
        """Refuse unknown inputs and inputs of the wrong type. Every builder calls this."""
        cls._refuse_unknown(inputs)
        check_values(inputs, cls.inputs_type, skip=("history",), wanted=cls.wanted_inputs)

    @classmethod
    def _refuse_unknown(cls, inputs: Mapping[str, object]) -> None:
        names = cls.input_names()
        for name in inputs:
            if name not in names:
                from difflib import get_close_matches

                near = get_close_matches(name, names, n=1)
                hint = f"; did you mean {near[0]!r}?" if near else f"; known inputs: {', '.join(sorted(names))}"
                raise ConfigError(f"unknown input {name!r}{hint}", code="UNKNOWN_INPUT")

    def __getitem__(self, key: str) -> FrozenJson:
        return self.data[key]

    def get(self, key: str, default: FrozenJson = None) -> FrozenJson:
        """Read the application's own data.

        Args:
            key: The key in ``data``.
            default: What to return if the key is missing.
        """
        return self.data.get(key, default)

    def __contains__(self, key: object) -> bool:
        return key in self.data


@cache
def _input_names(context_class: type[Context]) -> frozenset[str]:
    return frozenset(each.name for each in dataclasses.fields(context_class) if each.init)


EMPTY_STEP_CONFIGS: Mapping[str, Mapping[str, object]] = {}


def normalize_step_configs(value: object) -> Mapping[str, Mapping[str, object]]:
    """Normalise step names and check that every step's options are a mapping."""
    if not is_mapping(value):
        raise ConfigError(f"step_configs must map step names to options, not {type(value).__name__}")
    configs: dict[str, Mapping[str, object]] = {}
    for name, options in value.items():
        if not is_mapping(options):
            raise ConfigError(f"step_configs[{name!r}] must be a mapping of options, not {type(options).__name__}")
        configs[str(name).strip().lower().replace("-", "_")] = dict(options)
    return configs


ContextT_co = TypeVar("ContextT_co", bound=Context, covariant=True)


class DrawnNumbers:
    """An application's random numbers; the drawn ones are recorded, so that a prompt can be built again."""

    def __init__(self, source: Callable[[], float]) -> None:
        self.source = source
        self._drawn: list[float] = []

    def __call__(self) -> float:
        """Draw a number."""
        number = self.source()
        self._drawn.append(number)
        return number

    def again(self) -> Callable[[], float]:
        """Return a function that gives the same numbers again."""
        drawn = iter(tuple(self._drawn))
        return lambda: next(drawn, 0.5)


_COMPARED_WARNINGS: Final = 10 * MAX_WARNINGS
"""How many warnings of a build later ones are compared with."""


class BuildWarnings:
    """Collects the warnings of a build.

    It has no reference to the state, so engines can keep it without making a cycle: the memory of a finished build is
    free at once, without the garbage collector.
    """

    __slots__ = ("_counts", "_taken", "context", "messages", "step")

    def __init__(self, context: Context) -> None:
        self.context = context
        self.messages: list[str] = []
        self._counts: WarningCounts | None = None
        self._taken: set[str] = set()
        self.step: str | None = None
        """The step that runs."""

    def take(self, message: str) -> None:
        """Keep a warning, or count it; in strict mode raise. The same warning is kept once."""
        context = self.context
        if message in self._taken and not context.strict:  # texts are expanded several times
            return
        if len(self._taken) < _COMPARED_WARNINGS:
            self._taken.add(message)
        if self._counts is None:  # most builds warn of nothing
            self._counts = WarningCounts()
        if not self._counts.take(message):
            if context.strict:
                raise StrictModeError(message)
            return
        self.messages.append(message)
        if context.instrumenter is not None:
            context.instrumenter("warning", {"message": message, "step": self.step})
        if context.strict:
            raise StrictModeError(message)
        if context.warn is not None:
            context.warn(message)

    @property
    def left_out(self) -> Sequence[str]:
        """Return one line for each kind with too many warnings."""
        return () if self._counts is None else self._counts.left_out

    def copy(self) -> BuildWarnings:
        """Return what goes on from here on its own."""
        twin = copy.copy(self)
        twin.messages, twin._taken = [*self.messages], {*self._taken}  # noqa: SLF001  # its own copy
        return twin


class BuildState(Generic[ContextT_co]):
    """Workspace of one build. Platforms subclass it with their own typed attributes."""

    def __init__(self, context: ContextT_co) -> None:
        self._context = context
        self.log = BuildWarnings(context)
        """Where warnings go."""
        self._inputs_open = False
        self._variables = context.variables
        self.blocks: list[Block] = []
        self.plan: Plan | None = None
        self.llm_options: dict[str, object] = dict(thaw_object(context.llm_options))
        self.omissions: list[Omission] = []
        self.degraded: list[str] = []
        self.metadata: dict[str, object] = {}
        self.again: Again | None = None
        """Builds a plan again with traced texts, for its source map."""

    @cached_property
    def build_budget(self) -> BuildBudget:
        """The steps, characters and memory that this build has used."""
        return BuildBudget(self._context.limits)

    @cached_property
    def variables(self) -> VariablesOverlay:
        """The chat's variables; writes of the build stay here until the reply has arrived."""
        keep = partial(_keep_variable, self.build_budget, self.log.take)
        return VariablesOverlay(self._variables or InMemoryVariablesStore(), keep)

    @property
    def context(self) -> ContextT_co:
        """The frozen input. Only before-build hooks may change it, with ``change_inputs()``."""
        return self._context

    @contextmanager
    def inputs_open(self) -> Generator[None]:
        """Allow ``change_inputs()`` inside the ``with`` block."""
        before, self._inputs_open = self._inputs_open, True
        try:
            yield
        finally:
            self._inputs_open = before

    def change_inputs(self, **changes: object) -> None:
        """Replace inputs of this build (a message, the character, …) from a before-build hook.

        Raises:
            ConfigError: No before-build hook is running.
        """
        if not self._inputs_open:
            raise ConfigError("inputs can only be changed in a before-build hook: register one in HookRegistry")
        self._context = self.log.context = self._context.replace(**changes)

    @property
    def warn(self) -> Warn:
        """Reports a problem with external input: records it, and calls the handler or raises.

        Of many similar warnings only the first are kept; the others are counted. A strict build raises
        ``StrictModeError``.
        """
        return self.log.take

    @property
    def warnings(self) -> list[str]:
        """What was reported."""
        return self.log.messages

    @property
    def current_step(self) -> str | None:
        """The step that runs."""
        return self.log.step

    @current_step.setter
    def current_step(self, name: str | None) -> None:
        self.log.step = name

    def omit(self, omission: Omission) -> None:
        """Record something that was left out, with the reason."""
        self.omissions.append(omission)

    def instrument(
        self, event: str, lazy: Callable[[], Mapping[str, object]] | None = None, /, **payload: object
    ) -> None:
        """Notify the instrumenter, if there is one; ``lazy`` is called only then and adds to the payload.

        Args:
            event: What happened.
            lazy: Returns more details.
            payload: Details by name.
        """
        instrumenter = self._context.instrumenter
        if instrumenter is not None:
            instrumenter(event, {**payload, **lazy()} if lazy else payload)

    def stat(self, key: str, value: object) -> None:
        """Record a counter of the current step.

        Args:
            key: The name of the number.
            value: The number.
        """
        self.instrument("stat", key=key, value=value, step=self.current_step)

    def copy(self) -> Self:
        """Return a copy for experiments: containers are copied one level deep."""
        assert self.variables is not None  # created first if necessary: both copies share it
        twin = copy.copy(self)
        twin.log = self.log.copy()
        for name, value in vars(self).items():
            if isinstance(value, (list, dict)):
                setattr(twin, name, copy.copy(value))  # pyright: ignore[reportUnknownArgumentType]  # any container
        return twin


def _keep_variable(budget: BuildBudget, warn: Warn, name: str, old: Json, value: Json) -> bool:
    """Count the size of a written variable; return True if it may be stored."""
    before = -len(name) if old is None else size_of(old)
    if budget.keep(size_of(value) - before):
        return True
    warn(f"the build keeps too much: the variable {name!r:.80} is not written")
    return False
