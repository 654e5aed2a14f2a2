"""Steps, and an immutable, named sequence of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Generic, Self, TypeAlias, TypeVar

from tavernkit._arguments import require
from tavernkit._dataclass import dataclass
from tavernkit._values import deep_merge, is_mapping
from tavernkit.errors import ConfigError, PipelineError, StrictModeError, noting_degraded
from tavernkit.prompt._context import BuildState, Context, underscore
from tavernkit.prompt._trace import Instrumenter

StateT_contra = TypeVar("StateT_contra", contravariant=True)
ConfigT = TypeVar("ConfigT")


@dataclass(frozen=True, slots=True)
class NoConfig:
    """The config of a step that has no options."""


class Step(Generic[StateT_contra, ConfigT]):
    """A stateless unit with a typed, frozen config; data of one run is kept in the state.

    A step with options names its config class::

        class Shout(Step[BuildState[Context], Shout.Config]):
            Config = ShoutConfig

    ``before`` runs in pipeline order, ``after`` in reverse order once every ``before`` has run.

    Args:
        config: The step's configuration; by default ``Config()``.
        options: Fields of the configuration to change.
    """

    name: ClassVar[str] = ""
    Config: ClassVar[type[Any]] = NoConfig  # a frozen dataclass; its fields are the step's options

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        if "name" not in vars(cls):
            cls.name = _default_name(cls.__name__)

    def __init__(self, config: ConfigT | None = None, **options: object) -> None:
        require("config", config, self.Config | None)
        base: ConfigT = self.Config() if config is None else config
        self.config: ConfigT = merge_options(base, options, self.name) if options else base

    def configured(self, options: Mapping[str, object]) -> Self:
        """Return the same step with options merged over its config."""
        return type(self)(merge_options(self.config, options, self.name))

    def before(self, state: StateT_contra) -> None:
        """Run on the way in."""

    def after(self, state: StateT_contra) -> None:
        """Run on the way out."""


_NO_AFTER: object = vars(Step)["after"]


def merge_options(config: ConfigT, options: Mapping[str, object], step: str) -> ConfigT:
    """Return a config with options changed; mappings merge, everything else is replaced, unknown names are refused."""
    known: dict[str, object] = {each.name: getattr(config, each.name) for each in dataclasses.fields(config)}  # pyright: ignore[reportArgumentType]  # every Config is a dataclass
    changes: dict[str, object] = {}
    for name, value in options.items():
        if name not in known:
            from difflib import get_close_matches

            near = get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"it takes {', '.join(sorted(known)) or 'none'}"
            raise ConfigError(f"step {step!r} has no option {name!r}; {hint}", code="UNKNOWN_STEP_OPTION", step=step)
        old = known[name]
        changes[name] = deep_merge(old, value) if is_mapping(old) and is_mapping(value) else value
    try:
        return dataclasses.replace(config, **changes)  # pyright: ignore[reportArgumentType, reportReturnType, reportUnknownVariableType]  # every Config is a dataclass
    except ConfigError as error:
        error.step = error.step or step
        raise
    except (TypeError, ValueError) as error:
        raise ConfigError(f"step {step!r}: {error}", step=step) from error


def _default_name(class_name: str) -> str:
    return underscore(class_name.removesuffix("Step").lstrip("_") or class_name)


StateT = TypeVar("StateT", bound=BuildState[Context])

AnyStep: TypeAlias = Step[StateT, Any]
"""A step with any config."""


class Pipeline(Generic[StateT]):
    """Named steps in order. Every editing method returns a new pipeline; this one stays as it is.

    >>> pipeline = Pipeline(Prepare(), Assemble())          # doctest: +SKIP
    >>> pipeline.insert_after("prepare", Shout())           # doctest: +SKIP

    Raises:
        ConfigError: Two steps have the same name.
    """

    __slots__ = ("_steps",)

    def __init__(self, *steps: AnyStep[StateT] | tuple[str, AnyStep[StateT]]) -> None:
        named: dict[str, AnyStep[StateT]] = {}
        for entry in steps:
            name, step = _named(entry)
            if name in named:
                raise ConfigError(f"step {name!r} is in the pipeline twice", code="DUPLICATE_STEP", step=name)
            named[name] = step
        self._steps = named

    @property
    def names(self) -> tuple[str, ...]:
        """Step names in order."""
        return tuple(self._steps)

    def __contains__(self, name: object) -> bool:
        return name in self._steps

    def __getitem__(self, name: str) -> AnyStep[StateT]:
        self._require(name)
        return self._steps[name]

    def __iter__(self) -> Iterator[tuple[str, AnyStep[StateT]]]:
        return iter(self._steps.items())

    def __len__(self) -> int:
        return len(self._steps)

    def __repr__(self) -> str:
        return f"Pipeline({' → '.join(self._steps)})"

    def replace(self, name: str, step: AnyStep[StateT]) -> Pipeline[StateT]:
        """Replace the step ``name``; the new step gets the same name.

        Args:
            name: The step to replace.
            step: The new step.
        """
        self._require(name)
        return Pipeline(*((each, step if each == name else old) for each, old in self))

    def insert_before(self, before: str, step: AnyStep[StateT], *, name: str | None = None) -> Pipeline[StateT]:
        """Put a step before another one.

        Args:
            before: The name of the step to insert before.
            step: The new step.
            name: Its name; by default its own.
        """
        return self._insert(before, step, name, 0)

    def insert_after(self, after: str, step: AnyStep[StateT], *, name: str | None = None) -> Pipeline[StateT]:
        """Put a step after another one.

        Args:
            after: The name of the step to insert after.
            step: The new step.
            name: Its name; by default its own.
        """
        return self._insert(after, step, name, 1)

    def append(self, step: AnyStep[StateT], *, name: str | None = None) -> Pipeline[StateT]:
        """Put a step at the end.

        Args:
            step: The new step.
            name: Its name; by default its own.
        """
        return Pipeline(*self, (name or step.name, step))

    def without(self, name: str) -> Pipeline[StateT]:
        """Leave a step out."""
        self._require(name)
        return Pipeline(*(entry for entry in self if entry[0] != name))

    def configure(self, name: str, **options: object) -> Pipeline[StateT]:
        """Change options of a step.

        Args:
            name: The name of the step.
            options: Options of its config.
        """
        return self.replace(name, self[name].configured(options))

    def run(self, state: StateT) -> None:
        """Run every ``before`` in order, then every ``after`` in reverse order.

        An error of a step is wrapped in ``PipelineError`` with the step's name (a ``PipelineError`` is not wrapped
        again). Steps that are still open are notified too.

        Raises:
            StrictModeError: The build is strict, and a regex, script or template ran out of time on a busy machine.
        """
        with noting_degraded() as reasons:
            self._run(state)
        state.degraded += reasons
        if reasons and state.context.strict:
            raise StrictModeError("; ".join(reasons))

    def _run(self, state: StateT) -> None:
        log = state.log
        outer = log.step
        opened: list[tuple[str, AnyStep[StateT], Instrumenter | None]] = []
        try:
            for name, step in self._steps.items():
                context = state.context
                overrides = context.step_configs.get(name)
                log.step = name
                running = step.configured(overrides) if overrides else step
                instrumenter = context.instrumenter  # a hook may replace it; the end goes to the one that got the start
                if instrumenter is not None:
                    opened.append((name, running, instrumenter))
                    instrumenter("step_start", {"name": name})
                elif type(running).after is not _NO_AFTER:  # of others, nobody notices the end
                    opened.append((name, running, None))
                running.before(state)
            while opened:
                name, running, instrumenter = opened[-1]
                log.step = name
                running.after(state)
                opened.pop()
                if instrumenter is not None:
                    instrumenter("step_finish", {"name": name})
        except ConfigError as error:
            error.step = error.step or log.step
            _report(opened, error)
            raise
        except Exception as error:
            wrapped = _wrap(error, log.step)
            _report(opened, error, wrapped)
            if wrapped is error:
                raise
            raise wrapped from error
        finally:
            log.step = outer

    def _insert(self, anchor: str, step: AnyStep[StateT], name: str | None, offset: int) -> Pipeline[StateT]:
        self._require(anchor)
        entries = list(self)
        entries.insert(self.names.index(anchor) + offset, (name or step.name, step))
        return Pipeline(*entries)

    def _require(self, name: str) -> None:
        if name not in self._steps:
            from difflib import get_close_matches

            near = get_close_matches(name, self._steps, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(self._steps)}"
            raise ConfigError(f"the pipeline has no step {name!r}; {hint}", code="UNKNOWN_STEP")


def _named(entry: AnyStep[StateT] | tuple[str, AnyStep[StateT]]) -> tuple[str, AnyStep[StateT]]:
    if isinstance(entry, tuple) and len(entry) == 2:  # pyright: ignore[reportUnnecessaryComparison]  # callers may be untyped
        name, step = entry
    else:
        name, step = getattr(entry, "name", ""), entry
    require("steps", step, Step, "Step instances, or pairs of a name and one")
    require("the name of a step", name, str)
    return name, step


def _report(
    opened: Sequence[tuple[str, object, Instrumenter | None]], error: Exception, wrapped: Exception | None = None
) -> None:
    """Report an error to the steps that are still open: the innermost one gets it as it was raised."""
    for index, (name, _, instrumenter) in enumerate(reversed(opened)):
        if instrumenter is not None:
            instrumenter("step_error", {"name": name, "error": error if index == 0 else wrapped or error})


def _wrap(error: Exception, step: str | None) -> PipelineError:
    if isinstance(error, PipelineError):
        return error
    return PipelineError(f"{type(error).__name__}: {error}", step=step)


class HooksStep(Step[BuildState[Context], NoConfig]):
    """Runs the hooks of ``context.hooks``: before the build they may change its inputs, after it its plan.

    Reads and, through the hooks, writes ``context``; ``after`` reads and writes ``plan``.
    """

    name = "hooks"

    def before(self, state: BuildState[Context]) -> None:
        """Run the before-build hooks."""
        if state.context.hooks is not None:
            state.context.hooks.run_before_build(state)

    def after(self, state: BuildState[Context]) -> None:
        """Run the after-build hooks."""
        if state.context.hooks is not None:
            state.context.hooks.run_after_build(state)
