"""``tavernkit eval``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tavernkit._dataclass import dataclass
from tavernkit.cli.options import MODEL, SCRIPTED, ModelOptions, require_models, split_name, takes
from tavernkit.cli.process import ExitCode

if TYPE_CHECKING:
    from tavernkit.models import Model
    from tavernkit.vibe_tavern._evals.lab import EvalModel

SUITES = ("tools", "directives", "language")


@dataclass(frozen=True, kw_only=True)
class EvalModelOptions:
    """The models that are evaluated. Keys are read from the environment only."""

    model: Annotated[
        list[str] | None,
        typer.Option(
            "--model",
            metavar="NAME",
            help="provider:name, or the name alone with --base-url or --provider; or scripted; may be repeated.",
            envvar="TAVERNKIT_MODEL",
            rich_help_panel=MODEL,
        ),
    ] = None
    provider: Annotated[
        str | None,
        typer.Option(
            "--provider",
            metavar="NAME",
            help="The provider of models without a provider in their name: openai, anthropic, google, openrouter, …",
            rich_help_panel=MODEL,
        ),
    ] = None
    base_url: Annotated[
        str | None,
        typer.Option(
            "--base-url",
            metavar="URL",
            help="Another server with the provider's protocol; its key is in TAVERNKIT_API_KEY.",
            envvar="TAVERNKIT_BASE_URL",
            rich_help_panel=MODEL,
            show_default=False,
        ),
    ] = None
    reply: Annotated[
        list[str] | None,
        typer.Option("--reply", help="What the scripted model says; may be repeated.", rich_help_panel=MODEL),
    ] = None
    requests_per_second: Annotated[
        float | None,
        typer.Option(
            "--requests-per-second",
            help="The most requests to send to each provider per second.",
            rich_help_panel=MODEL,
        ),
    ] = None
    retries: Annotated[
        int, typer.Option("--retries", min=0, help="How often a failed request is sent again.", rich_help_panel=MODEL)
    ] = 2
    timeout: Annotated[
        float | None, typer.Option("--timeout", help="Seconds to wait for a reply.", rich_help_panel=MODEL)
    ] = None
    max_requests: Annotated[
        int | None,
        typer.Option(
            "--max-requests", min=1, help="Stop after this many requests, including retries.", rich_help_panel=MODEL
        ),
    ] = None
    max_tokens: Annotated[
        int | None,
        typer.Option(
            "--max-tokens",
            min=1,
            help="Stop after this many tokens, prompts and replies together.",
            rich_help_panel=MODEL,
        ),
    ] = None

    def catalogue(self) -> tuple[EvalModel, ...]:
        """Return the models by provider and name."""
        from tavernkit.vibe_tavern._evals.lab import EvalModel

        found: list[EvalModel] = []
        for name in self.model or ["default"]:
            provider, rest = split_name(name)
            found.append(EvalModel(rest, provider=provider or self.provider or "openai"))
        return tuple(dict.fromkeys(found))

    def connect(self) -> Callable[[EvalModel], Model]:
        """Return a function that makes models; a provider's models share its rate limit, all share the budget."""
        from tavernkit.batching._generation import Budget, GenerateOptions, LocalMeter, Meter, metered

        if self.base_url == SCRIPTED or self.model == [SCRIPTED] or (self.base_url is None and self.reply):
            scripted = ModelOptions(model=SCRIPTED, reply=self.reply).connect()
            return lambda _: scripted
        if self.base_url is None and self.provider is None and not any(":" in name for name in self.model or ()):
            raise typer.BadParameter(
                "say where the models are: --base-url URL, --provider NAME or --model provider:name; "
                "or try --model scripted"
            )
        require_models()
        meters: dict[str, LocalMeter] = {}
        budget = Budget(self.max_requests, self.max_tokens)

        def make(wanted: EvalModel) -> Model:
            options = GenerateOptions(
                model=f"{wanted.provider}:{wanted.id}",
                base_url=self.base_url,
                retries=self.retries,
                timeout=self.timeout,
                requests_per_second=self.requests_per_second,
            )
            meter = meters.setdefault(wanted.provider, LocalMeter(Meter(options, budget)))
            return metered(options, meter)

        return make


@takes(EvalModelOptions)
def evaluate(
    options: EvalModelOptions,
    suite: Annotated[
        list[str] | None, typer.Option("--suite", help="tools, directives or language; may be repeated.")
    ] = None,
    scenario: Annotated[
        str,
        typer.Option(
            "--scenario", help="Which scenarios, separated by commas: names, * for all, !NAME to leave one out."
        ),
    ] = "default",
    strategy: Annotated[
        str, typer.Option("--strategy", help="Which strategies, in the same way: production, baseline, …")
    ] = "production",
    profile: Annotated[str, typer.Option("--profile", help="Which sampling profiles, in the same way.")] = "default",
    language: Annotated[
        list[str] | None, typer.Option("--language", help="Add the language policy for this language; may be repeated.")
    ] = None,
    trials: Annotated[int, typer.Option("--trials", min=1, help="How often to run each combination.")] = 1,
    jobs: Annotated[int, typer.Option("--concurrency", "--jobs", min=1, help="Runs at the same time.")] = 1,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Folder for the report and every run.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the runs in the folder.")] = False,
    list_only: Annotated[bool, typer.Option("--list", help="List the runs and exit.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    r"""Test how well models call tools, write directives and keep to a language.

    One run can compare several models and providers, with a table for each. Exits with 1 if runs failed, and with 4 if
    no model answered. With --out, each run is written when it ends. After an interruption, or when --max-requests or
    --max-tokens stopped it, --resume makes the missing runs.

    \b
    tavernkit eval --list
    tavernkit eval --base-url http://localhost:8000 --model my-model --suite tools --trials 5
    tavernkit eval --base-url http://localhost:8000 --model my-model --out results/ --resume
    tavernkit eval --model openai:gpt-4o --model anthropic:claude-sonnet-4-5 --trials 10 --concurrency 8
    tavernkit eval --provider openrouter --model qwen/qwen3-32b --model z-ai/glm-4.6 --requests-per-second 2
    """
    from tavernkit import batching
    from tavernkit._values import counted
    from tavernkit.cli.terminal import complain, show, show_progress, show_report, table
    from tavernkit.vibe_tavern._evals.harness import EvalOptions, matrix

    unknown = set(suite or ()) - set(SUITES)
    if unknown:
        raise typer.BadParameter(f"--suite is one of {', '.join(SUITES)}")
    chosen = EvalOptions(
        suites=tuple(suite or SUITES[:2]),
        models="all",
        scenarios=scenario,
        strategies=strategy,
        profiles=profile,
        languages=tuple(language or ()),
        trials=trials,
        jobs=jobs,
        catalogue=options.catalogue(),
    )
    if list_only:
        cells = [cell.config() for cell in matrix(chosen)]
        if as_json:
            show_report({"runs": cells})
            return
        shown = ("provider", "model", "suite", "scenario", "strategy", "sampling_profile")
        rows = [[str(cell[key]) for key in shown] for cell in cells]
        columns = ("provider", "model", "suite", "scenario", "strategy", "profile")
        show(table(*columns, rows=rows), f"\n{len(cells)} runs")
        return
    if resume and out is None:
        raise typer.BadParameter("--resume continues the runs of a folder: pass it with --out")
    with show_progress() as report_progress:
        report = batching.evaluate(chosen, options.connect(), out=out, resume=resume, progress=report_progress)
    if out is not None:
        report.write(out)
    if as_json:
        show_report(report.summary())
    else:
        show(report.to_markdown())
    if report.missing:
        complain(f"stopped by --max-requests or --max-tokens: {counted(report.missing, 'run')} not made")
    if not any(record.answered for record in report.records):
        raise typer.Exit(ExitCode.MODEL)
    if not all(record.ok for record in report.records):
        raise typer.Exit(ExitCode.PROBLEMS)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("eval")(evaluate)
