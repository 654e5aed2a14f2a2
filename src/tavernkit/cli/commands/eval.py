"""``tavernkit eval``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tavernkit.cli.exit_codes import ExitCode
from tavernkit.cli.model_options import ModelOptions
from tavernkit.cli.option_groups import takes

if TYPE_CHECKING:
    from tavernkit.vibe_tavern.evals.harness import EvalOptions, EvalProgress
    from tavernkit.vibe_tavern.evals.report import EvalReport
    from tavernkit.vibe_tavern.evals.run_log import RunLog

SUITES = ("tools", "directives", "language")


@dataclass(frozen=True, kw_only=True)
class EvalModelOptions(ModelOptions):
    """The model that is evaluated."""


@takes(EvalModelOptions)
def evaluate(
    options: EvalModelOptions,
    suite: Annotated[list[str] | None, typer.Option("--suite", help="tools, directives or language; repeat.")] = None,
    scenario: Annotated[str, typer.Option("--scenario", help="Filter: names with commas, * and !.")] = "default",
    strategy: Annotated[str, typer.Option("--strategy", help="Filter of strategies.")] = "production",
    profile: Annotated[str, typer.Option("--profile", help="Filter of sampling profiles.")] = "default",
    language: Annotated[list[str] | None, typer.Option("--language", help="Adds the language policy; repeat.")] = None,
    trials: Annotated[int, typer.Option("--trials", min=1, help="Runs of each combination.")] = 1,
    jobs: Annotated[int, typer.Option("--jobs", min=1, help="Runs at the same time.")] = 1,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Folder for the report and every run.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the runs that the folder has.")] = False,
    list_only: Annotated[bool, typer.Option("--list", help="List the runs and end.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    r"""See how well a model calls tools, writes directives and keeps to a language.

    Exits with 1 if runs failed, with 4 if the model answered none. With --out, runs are written to runs.jsonl as they
    end, and --resume makes only those that are missing.

    \b
    tavernkit eval --list
    tavernkit eval --base-url http://localhost:8000 --model my-model --suite tools --trials 5
    tavernkit eval --base-url http://localhost:8000 --model my-model --out results/ --resume
    """
    from tavernkit.cli.terminal import show, show_report, table
    from tavernkit.vibe_tavern.evals.catalogue import EvalModel
    from tavernkit.vibe_tavern.evals.harness import EvalOptions, matrix

    unknown = set(suite or ()) - set(SUITES)
    if unknown:
        raise typer.BadParameter(f"--suite is one of {', '.join(SUITES)}")
    model = options.model or "default"
    chosen = EvalOptions(
        suites=tuple(suite or SUITES[:2]),
        models="all",
        scenarios=scenario,
        strategies=strategy,
        profiles=profile,
        languages=tuple(language or ()),
        trials=trials,
        jobs=jobs,
        catalogue=(EvalModel(model, provider="openai"),),
    )
    if list_only:
        cells = [cell.config() for cell in matrix(chosen)]
        if as_json:
            show_report({"runs": cells})
            return
        rows = [[str(cell[key]) for key in ("suite", "scenario", "strategy", "sampling_profile")] for cell in cells]
        show(table("suite", "scenario", "strategy", "profile", rows=rows), f"\n{len(cells)} runs")
        return
    report = _run(chosen, options, _run_log(out, resume=resume))
    if out is not None:
        report.write(out)
    if as_json:
        show_report(report.summary())
    else:
        show(report.to_markdown())
    if not any(record.answered for record in report.records):
        raise typer.Exit(ExitCode.MODEL)
    if not all(record.ok for record in report.records):
        raise typer.Exit(ExitCode.PROBLEMS)


def _run_log(out: Path | None, *, resume: bool) -> RunLog | None:
    from tavernkit.vibe_tavern.evals.run_log import RunLog

    if out is None:
        if resume:
            raise typer.BadParameter("--resume goes on with the runs of a folder: name it with --out")
        return None
    log = RunLog(out)
    if log.path.exists() and not resume:
        raise typer.BadParameter(f"{out} has runs already: go on with --resume, or name another folder")
    return log


def _run(chosen: EvalOptions, options: ModelOptions, log: RunLog | None) -> EvalReport:
    import asyncio

    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    from tavernkit.cli.terminal import console
    from tavernkit.vibe_tavern.evals.harness import run_evals

    model = options.connect()
    screen = console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal) as bar:
        task = bar.add_task("runs", total=None)

        def told(progress: EvalProgress) -> None:
            bar.update(task, total=progress.total, completed=progress.done)
            if log is not None:
                log.append(progress.record)

        before = log.read() if log is not None else ()
        return asyncio.run(run_evals(chosen, lambda _: model, progress=told, before=before))


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("eval")(evaluate)
