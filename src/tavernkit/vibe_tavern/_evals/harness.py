"""Runs scenarios over a matrix and collects the results."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Final, TypeAlias

from tavernkit._arguments import check_values, require
from tavernkit._dataclass import dataclass
from tavernkit._values import JsonObject, is_list, is_object
from tavernkit.errors import ConfigError
from tavernkit.models import Model, ModelError
from tavernkit.models.errors import BudgetReachedError
from tavernkit.vibe_tavern._evals.answer_scenarios import (
    DIRECTIVE_SCENARIOS,
    LANGUAGE_SCENARIOS,
    is_other_language,
    language_shape,
)
from tavernkit.vibe_tavern._evals.lab import (
    DEFAULT_PROFILE_ID,
    STRATEGIES,
    EvalModel,
    Lab,
    SamplingProfile,
    Scenario,
    ScenarioOutcome,
    Strategy,
    matches,
    profiles_for,
    shipped_models,
    shipped_profiles,
)
from tavernkit.vibe_tavern._evals.report import (
    ASSERTION_FAILED,
    EMPTY_ASSISTANT_TEXT,
    LANGUAGE_DRIFT,
    RETRYABLE,
    EvalReport,
    RunRecord,
    error_category,
    http_category,
)
from tavernkit.vibe_tavern._evals.tool_scenarios import TOOL_SCENARIOS
from tavernkit.vibe_tavern._options import is_blank, names
from tavernkit.vibe_tavern._prompt_runner import PromptRunner, elapsed_ms
from tavernkit.vibe_tavern.errors import ToolLoopLimitError, ToolUseError

SCENARIOS: Final[tuple[Scenario, ...]] = (*TOOL_SCENARIOS, *DIRECTIVE_SCENARIOS, *LANGUAGE_SCENARIOS)
"""The shipped scenarios of all suites."""

LANGUAGES: Final = ("zh-CN", "ja-JP")
"""The languages of the language suite, unless options name others."""


@dataclass(frozen=True, kw_only=True)
class EvalOptions:
    """What to evaluate.

    Filters are comma-separated names: ``*`` is a wildcard, ``!`` excludes, ``all`` matches everything.
    ``languages`` adds the language policy to every run, once for each language; the language suite always has some.
    """

    suites: str | Sequence[str] = ("tools", "directives")
    """Suites to run: ``tools``, ``directives``, ``language``."""
    models: str | Sequence[str] = "stable"
    """Models to run, by id or tag."""
    scenarios: str | Sequence[str] = "default"
    """Scenarios to run, by id or tag."""
    strategies: str | Sequence[str] = "production"
    """Strategies to compare; ``production`` uses each model's workarounds."""
    profiles: str | Sequence[str] = DEFAULT_PROFILE_ID
    """Sampling profiles to compare, by id or tag."""
    languages: Sequence[str] = ()
    trials: int = 1
    """How often each combination is run."""
    jobs: int = 1
    """How many runs are in progress at the same time."""
    empty_response_retry_count: int = 1
    """How often an empty reply is retried."""
    auto_profile: bool = True
    """Use a model's recommended sampling profile with ``production``, if ``profiles`` names none."""
    llm_options: Mapping[str, object] = field(default_factory=dict[str, object])
    """Options of every request, in OpenAI's names."""
    tool_calling: Mapping[str, object] = field(default_factory=dict[str, object])
    """Options of the tool loop for every run."""
    dialect: str | None = None
    """The provider's protocol; None for the provider's own."""
    catalogue: Sequence[EvalModel] = field(default_factory=shipped_models)
    """The models to choose from; the shipped ones by default."""
    sampling_profiles: Sequence[SamplingProfile] = field(default_factory=shipped_profiles)
    """The profiles to choose from; the shipped ones by default."""
    all_scenarios: Sequence[Scenario] = SCENARIOS
    """The scenarios to choose from; the shipped ones by default."""

    def __post_init__(self) -> None:
        check_values(vars(self), type(self))
        if self.trials < 1 or self.jobs < 1:
            raise ConfigError("trials and jobs must be 1 or more", code="INVALID_EVAL_OPTIONS")

    @classmethod
    def full(cls, **fields: object) -> EvalOptions:
        """Everything: all models, scenarios, strategies and the usual profiles, ten trials each."""
        everything: dict[str, object] = {
            "suites": ("tools", "directives", "language"),
            "models": "all",
            "scenarios": "all",
            "strategies": "all",
            "profiles": "default,recommended,conversation,creative,tool_calling",
            "trials": 10,
        }
        return cls(**{**everything, **fields})  # pyright: ignore[reportArgumentType]  # names are the fields'


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalCell:
    """One planned run."""

    scenario: Scenario
    model: EvalModel
    profile: SamplingProfile
    strategy: Strategy
    language: str | None
    trial: int

    def config(self) -> JsonObject:
        """What identifies the run in reports."""
        return {
            "suite": self.scenario.suite,
            "scenario": self.scenario.id,
            "provider": self.model.provider,
            "model": self.model.id,
            "sampling_profile": self.profile.id,
            "strategy": self.strategy,
            "language": self.language,
            "trial": self.trial,
        }


@dataclass(frozen=True, slots=True)
class EvalProgress:
    """Progress after a run: how many have ended, of how many, and which one was last."""

    done: int
    """How many runs have ended."""
    total: int
    """How many runs there are."""
    record: RunRecord
    """The run that has just ended."""


ModelFactory: TypeAlias = Callable[[EvalModel], Model]


def matrix(options: EvalOptions) -> Iterator[EvalCell]:
    """List the runs of the options, in a fixed order."""
    strategies: list[Strategy] = [each for each in STRATEGIES if matches((each,), options.strategies)]
    suites = names(options.suites) or ()
    scenarios = [
        each
        for each in options.all_scenarios
        if each.suite in suites and matches((each.id, *each.tags), options.scenarios)
    ]
    for model in options.catalogue:
        if not matches(model.labels(), options.models):
            continue
        for strategy in strategies:
            for profile in _profiles(model, strategy, options):
                for scenario in scenarios:
                    for language in _languages(scenario, options):
                        for trial in range(1, options.trials + 1):
                            yield EvalCell(
                                scenario=scenario,
                                model=model,
                                profile=profile,
                                strategy=strategy,
                                language=language,
                                trial=trial,
                            )


async def run_evals(
    options: EvalOptions,
    model: Model | ModelFactory,
    *,
    progress: Callable[[EvalProgress], object] | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> EvalReport:
    """Run the matrix against an endpoint, ``jobs`` runs at a time; the report is in the order of the matrix.

    ``model`` is one model for all runs (requests name theirs), or a function that makes one for each. Errors of a run
    are its result. When a model's budget is used up, the remaining runs are skipped. To write runs to a folder and
    resume them, see ``tavernkit.batching.evaluate()``.

    Args:
        options: What to run.
        model: The model, or a function that makes one for a run.
        progress: Called after each run.
        clock: Measures how long runs take, in seconds.

    Raises:
        ConfigError: The options select nothing to run.
    """
    require("options", options, EvalOptions)
    require("model", model, Model | Callable[..., object], "a model, or a function that makes one")
    cells = list(matrix(options))
    if not cells:
        raise ConfigError("nothing to evaluate: the filters leave no run", code="EMPTY_EVAL_MATRIX")
    runners = runners_of(cells, model, clock)
    records: list[RunRecord | None] = [None] * len(cells)
    slots = asyncio.Semaphore(options.jobs)
    done = 0
    out_of_budget = False

    async def work(position: int, cell: EvalCell) -> None:
        nonlocal done, out_of_budget
        async with slots:
            if out_of_budget:
                return
            try:
                record = await run_cell(cell, runners[cell.model.key], options, clock)
            except BudgetReachedError:
                out_of_budget = True
                return
        records[position] = record
        done += 1
        if progress is not None:
            progress(EvalProgress(done, len(cells), record))

    try:
        async with asyncio.TaskGroup() as group:
            for position, cell in enumerate(cells):
                group.create_task(work(position, cell))
    finally:
        if not isinstance(model, Model):  # close what was created here
            for runner in runners.values():
                await runner.aclose()
    made = tuple(record for record in records if record is not None)
    return EvalReport(made, missing=len(cells) - len(made))


def runners_of(
    cells: Iterable[EvalCell], model: Model | ModelFactory, clock: Callable[[], float]
) -> dict[tuple[str, str], PromptRunner]:
    """Make a runner for each model of a matrix, by the model's key.

    Args:
        cells: The runs.
        model: The model of all of them, or a function that makes each.
        clock: Measures how long runs take, in seconds.
    """
    factory: ModelFactory = (lambda _: model) if isinstance(model, Model) else model
    models = {cell.model.key: cell.model for cell in cells}
    return {key: PromptRunner(factory(each), clock=clock) for key, each in models.items()}


async def run_cell(cell: EvalCell, runner: PromptRunner, options: EvalOptions, clock: Callable[[], float]) -> RunRecord:
    """Make one run of a matrix; an empty answer is retried.

    Args:
        cell: The run.
        runner: Sends its requests.
        options: The options of the evaluation.
        clock: Measures how long it takes, in seconds.

    Raises:
        BudgetReachedError: A request could not be sent, because the budget is used up.
    """
    record = await _attempt(cell, runner, options, clock)
    retries = options.empty_response_retry_count
    while record.error_category in RETRYABLE and retries > 0:
        retries -= 1
        record = await _attempt(cell, runner, options, clock)
    return record


async def _attempt(cell: EvalCell, runner: PromptRunner, options: EvalOptions, clock: Callable[[], float]) -> RunRecord:
    lab = Lab(
        runner=runner,
        model=cell.model,
        profile=cell.profile,
        strategy=cell.strategy,
        language=cell.language,
        llm_options=options.llm_options,  # pyright: ignore[reportArgumentType]  # JSON, by contract
        tool_calling=options.tool_calling,  # pyright: ignore[reportArgumentType]  # JSON, by contract
        dialect=options.dialect,
    )
    started = clock()
    try:
        outcome = await cell.scenario.run(lab)
    except Exception as error:  # any error of a run is its result
        if isinstance(error, BudgetReachedError) or isinstance(error.__cause__, BudgetReachedError):
            raise BudgetReachedError(str(error)) from error
        return RunRecord(
            config=cell.config(),
            ok=False,
            elapsed_ms=elapsed_ms(started, clock),
            error=f"{type(error).__name__}: {error}",
            error_category=error_category(error),
            details=_error_details(error),
        )
    return _judge(cell, outcome, elapsed_ms(started, clock))


def _judge(cell: EvalCell, outcome: ScenarioOutcome, taken: int) -> RunRecord:
    category, error = None, None
    refused = _refusal(outcome.details)
    if refused is not None:
        category, error = refused
    elif is_blank(outcome.text):
        category, error = EMPTY_ASSISTANT_TEXT, "the answer is empty"
    elif outcome.reasons:
        category, error = ASSERTION_FAILED, "; ".join(outcome.reasons)
    elif is_other_language(outcome.text, cell.language):
        category, error = LANGUAGE_DRIFT, f"the answer is not in {cell.language}"
    return RunRecord(
        config=cell.config(),
        ok=category is None,
        elapsed_ms=taken,
        error=error,
        error_category=category,
        text=outcome.text,
        language_shape=language_shape(outcome.text, cell.language) if cell.language else None,
        total_tokens=_tokens(outcome.details),
        details=outcome.details,
    )


def _refusal(details: JsonObject) -> tuple[str, str] | None:
    """Return the last error status if the endpoint answered none of a run's requests."""
    attempts = details.get("attempts")
    made = [each for each in (attempts if is_list(attempts) else ()) if is_object(each)]
    refused = [each for each in made if each.get("http_error")]
    if not refused or any("assistant_content_sample" in each for each in made):
        return None
    status, message = refused[-1].get("http_status"), str(refused[-1].get("message"))
    return http_category(status if isinstance(status, int) else 0, message), message


def _error_details(error: Exception) -> JsonObject:
    if isinstance(error, (ToolUseError, ToolLoopLimitError)):
        trace = error.details.get("trace")
        return {"trace": [*trace]} if isinstance(trace, tuple) else {}  # pyright: ignore[reportUnknownVariableType]
    return {"attempts": [*error.attempts]} if isinstance(error, ModelError) and error.attempts else {}


def _tokens(details: JsonObject) -> int:
    """Add up the provider's token counts of all requests of a run."""
    usages = [details.get("usage")]
    trace = details.get("trace")
    for entry in trace if is_list(trace) else []:
        summary = entry.get("response_summary") if is_object(entry) else None
        usages.append(summary.get("usage") if is_object(summary) else None)
    totals = [usage.get("total_tokens") for usage in usages if is_object(usage)]
    return sum(total for total in totals if isinstance(total, int))


def _profiles(model: EvalModel, strategy: Strategy, options: EvalOptions) -> list[SamplingProfile]:
    """In production, the first recommended profile replaces the default one, if no other was requested."""
    chosen = profiles_for(model, options.sampling_profiles, options.profiles)
    if options.auto_profile and strategy == "production" and [each.id for each in chosen] == [DEFAULT_PROFILE_ID]:
        recommended = [
            each for each in options.sampling_profiles if "recommended" in each.tags and each.applies_to(model)
        ]
        return recommended[:1] or chosen
    return chosen


def _languages(scenario: Scenario, options: EvalOptions) -> Sequence[str | None]:
    if options.languages:
        return options.languages
    return LANGUAGES if scenario.suite == "language" else (None,)
