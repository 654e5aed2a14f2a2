"""What is evaluated: models and sampling profiles, how they are chosen, and what a scenario gets and returns."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files
from typing import Any, Final, Literal, Protocol

from tavernkit._dataclass import dataclass
from tavernkit._values import EMPTY_OBJECT, FrozenObject, Json, JsonObject, deep_merge, freeze_object, thaw_object
from tavernkit.vibe_tavern._options import names
from tavernkit.vibe_tavern._prompt_runner import PromptRunner
from tavernkit.vibe_tavern._runner_config import Presets, RunnerConfig

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


Strategy = Literal["raw", "baseline", "production"]

STRATEGIES: Final[tuple[Strategy, ...]] = ("raw", "baseline", "production")
"""Without presets; with the provider's; with the model's as well, and its workarounds in the catalogue."""

_PRESETS: Final[Mapping[Strategy, Presets]] = {"raw": "none", "baseline": "provider", "production": "all"}


@dataclass(frozen=True, slots=True)
class ScenarioOutcome:
    """The outcome of one run of a scenario; ``reasons`` say what was wrong."""

    text: str
    reasons: Sequence[str] = ()
    details: JsonObject = field(default_factory=dict[str, Json])


@dataclass(frozen=True, slots=True, kw_only=True)
class Lab:
    """One cell of the matrix: a model with its settings, and a runner that reaches it."""

    runner: PromptRunner
    model: EvalModel
    profile: SamplingProfile
    strategy: Strategy
    language: str | None = None
    llm_options: FrozenObject = field(default_factory=lambda: EMPTY_OBJECT)
    tool_calling: FrozenObject = field(default_factory=lambda: EMPTY_OBJECT)
    dialect: str | None = None

    def config(self, **sections: Mapping[str, object]) -> RunnerConfig:
        """Make the configuration of a run, with additional sections (``tool_calling={...}``)."""
        context: dict[str, object] = {"warn": None, **sections}
        if self.language is not None:
            context["language_policy"] = {"enabled": True, "target_lang": self.language, "special_tags": ["lang"]}
        options = deep_merge(thaw_object(self.llm_options), thaw_object(self.profile.options))
        return RunnerConfig.build(
            provider=self.model.provider,
            model=self.model.id,
            context=context,
            llm_options_defaults=options,
            presets=_PRESETS[self.strategy],
        )


class Scenario(Protocol):
    """A task for a model, and how its answer is judged."""

    @property
    def id(self) -> str:
        """Its name in reports."""
        ...

    @property
    def suite(self) -> str:
        """Which evaluation it belongs to: ``tools``, ``directives`` or ``language``."""
        ...

    @property
    def tags(self) -> tuple[str, ...]:
        """What filters match besides the id."""
        ...

    async def run(self, lab: Lab) -> ScenarioOutcome:
        """Ask the model and judge its answer; errors of the run are raised."""
        ...
