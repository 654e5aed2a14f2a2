"""What a scenario gets, and what it returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Final, Literal, Protocol

from tavernkit._dataclass import dataclass
from tavernkit._values import EMPTY_OBJECT, FrozenObject, Json, JsonObject, deep_merge, thaw_object
from tavernkit.vibe_tavern._evals.catalogue import EvalModel, SamplingProfile
from tavernkit.vibe_tavern._prompt_runner import PromptRunner
from tavernkit.vibe_tavern._runner_config import Presets, RunnerConfig

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
