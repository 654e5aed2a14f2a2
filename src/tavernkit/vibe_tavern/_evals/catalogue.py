"""Models and sampling profiles to evaluate, and how they are chosen."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import field
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files
from typing import Any, Final

from tavernkit._dataclass import dataclass
from tavernkit._values import EMPTY_OBJECT, FrozenObject, freeze_object
from tavernkit.vibe_tavern._options import names

EVERYTHING: Final = frozenset(("all", "full", "*"))
DEFAULT_PROFILE_ID: Final = "default"


@dataclass(frozen=True, slots=True)
class EvalModel:
    """A model to evaluate; ``workarounds`` are used in the strategy ``production``."""

    id: str
    """The provider's model id."""
    provider: str = "openrouter"
    """The provider."""
    tags: tuple[str, ...] = ()
    """Labels to filter by, such as ``stable``."""
    workarounds: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[str, str]:
        """A unique key: two providers may serve models with the same name."""
        return (self.provider, self.id)

    def labels(self) -> tuple[str, ...]:
        """What filters match: the id, the id without its suffix, the maker, the tags."""
        base = self.id.partition(":")[0]
        return (self.id, base, base.partition("/")[0], *self.tags)


@dataclass(frozen=True, slots=True)
class SamplingProfile:
    """Sampling options, and the models they are meant for (patterns; none means all)."""

    id: str
    tags: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    options: FrozenObject = field(default_factory=lambda: EMPTY_OBJECT)

    def labels(self) -> tuple[str, ...]:
        """What filters match."""
        return (self.id, *self.tags)

    def applies_to(self, model: EvalModel) -> bool:
        """Return True if the profile is meant for a model."""
        return not self.models or any(fnmatchcase(model.id, pattern) for pattern in self.models)


DEFAULT_PROFILE: Final = SamplingProfile(DEFAULT_PROFILE_ID, tags=("default",))


@cache
def shipped_models() -> tuple[EvalModel, ...]:
    """The models of the shipped catalogue."""
    return tuple(
        EvalModel(each["id"], tags=tuple(each.get("tags", ())), workarounds=tuple(each.get("workarounds", ())))
        for each in _catalogue()["models"]
    )


@cache
def shipped_profiles() -> tuple[SamplingProfile, ...]:
    """The sampling profiles of the shipped catalogue."""
    return tuple(
        SamplingProfile(
            each["id"],
            tuple(each.get("tags", ())),
            tuple(each.get("models", ())),
            freeze_object(each.get("options", {})),
        )
        for each in _catalogue()["profiles"]
    )


def matches(labels: Iterable[str], wanted: str | Sequence[str] | None) -> bool:
    """Return True if labels fit a filter.

    A filter is a comma-separated list of names: ``all`` matches everything, ``*`` is a wildcard, ``!`` excludes. An
    empty filter matches everything.
    """
    terms = names(wanted) or []
    known = tuple(labels)
    excluded = [term[1:].strip() for term in terms if term.startswith("!")]
    included = [term for term in terms if not term.startswith("!")]
    if any(_fits(known, term) for term in excluded):
        return False
    return not included or any(term.lower() in EVERYTHING or _fits(known, term) for term in included)


def profiles_for(
    model: EvalModel, profiles: Sequence[SamplingProfile], wanted: str | Sequence[str] | None
) -> list[SamplingProfile]:
    """Return the profiles of a filter that apply to a model; the default one if there is none."""
    chosen = [each for each in profiles if matches(each.labels(), wanted) and each.applies_to(model)]
    return chosen or [DEFAULT_PROFILE]


def _fits(labels: Sequence[str], term: str) -> bool:
    return any(fnmatchcase(label, term) for label in labels)


def _catalogue() -> dict[str, Any]:
    return tomllib.loads(files("tavernkit.vibe_tavern._evals").joinpath("catalogue.toml").read_text(encoding="utf-8"))
