"""One named unit of work of a pipeline."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, ClassVar, Generic, Self, TypeVar

from tavernkit.arguments import require
from tavernkit.errors import ConfigError
from tavernkit.text.keys import underscore
from tavernkit.values import deep_merge, is_mapping

StateT_contra = TypeVar("StateT_contra", contravariant=True)
ConfigT = TypeVar("ConfigT")


@dataclass(frozen=True, slots=True)
class NoConfig:
    """The config of a step that has no options."""


class Step(Generic[StateT_contra, ConfigT]):
    """A stateless unit with a typed, frozen config; what belongs to one run lives in the state.

    A step with options names its config class::

        class Shout(Step[BuildState[Context], Shout.Config]):
            Config = ShoutConfig

    ``before`` runs in pipeline order, ``after`` in reverse order once every ``before`` has run.
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
        """Work on the way in."""

    def after(self, state: StateT_contra) -> None:
        """Work on the way out."""


def merge_options(config: ConfigT, options: Mapping[str, object], step: str) -> ConfigT:
    """Return a config with options changed; mappings merge, everything else is replaced, unknown names are refused."""
    known: dict[str, object] = {each.name: getattr(config, each.name) for each in dataclasses.fields(config)}  # pyright: ignore[reportArgumentType]  # every Config is a dataclass
    changes: dict[str, object] = {}
    for name, value in options.items():
        if name not in known:
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
