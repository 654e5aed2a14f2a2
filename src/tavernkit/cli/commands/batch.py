"""``tavernkit batch``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tavernkit.cli.options import choice_option, require_models
from tavernkit.cli.process import ExitCode

if TYPE_CHECKING:
    from tavernkit.batching import BatchResult, Grid

FORMATS = ("jsonl", "parquet", "openai-batch", "chat")
PART, OUTPUT, ANSWERS = "Which part, and where", "What comes out", "Replies"


def batch(
    grid: Annotated[
        Path | None,
        typer.Argument(metavar="GRID", help="The grid file (TOML); --init writes one.", show_default=False),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="DIR", help="Folder for records and manifest.", rich_help_panel=OUTPUT),
    ] = None,
    form: Annotated[
        str,
        choice_option(FORMATS, "--format", help="How records are written (default: jsonl).", panel=OUTPUT),
    ] = "jsonl",
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            metavar="NAME",
            help="With --generate: provider:name, such as openai:gpt-4o. With openai-batch: the name alone.",
            envvar="TAVERNKIT_MODEL",
            rich_help_panel=ANSWERS,
        ),
    ] = None,
    generate: Annotated[
        bool, typer.Option("--generate", help="Send the prompts to a model.", rich_help_panel=ANSWERS)
    ] = False,
    base_url: Annotated[
        str | None,
        typer.Option(
            "--base-url",
            metavar="URL",
            help="Another server with the provider's protocol: vLLM, llama.cpp, …",
            envvar="TAVERNKIT_BASE_URL",
            rich_help_panel=ANSWERS,
            show_default=False,
        ),
    ] = None,
    concurrency: Annotated[
        int | None,
        typer.Option("--concurrency", min=1, help="Requests at the same time (default: 16).", rich_help_panel=ANSWERS),
    ] = None,
    requests_per_second: Annotated[
        float | None,
        typer.Option(
            "--requests-per-second",
            help="The most requests to send per second, including retries.",
            rich_help_panel=ANSWERS,
        ),
    ] = None,
    retries: Annotated[
        int | None,
        typer.Option(
            "--retries", min=0, help="How often a failed request is sent again (default: 5).", rich_help_panel=ANSWERS
        ),
    ] = None,
    timeout: Annotated[
        float | None, typer.Option("--timeout", help="Seconds to wait for a reply.", rich_help_panel=ANSWERS)
    ] = None,
    max_requests: Annotated[
        int | None,
        typer.Option("--max-requests", min=1, help="Stop after this many requests.", rich_help_panel=ANSWERS),
    ] = None,
    max_tokens: Annotated[
        int | None,
        typer.Option(
            "--max-tokens",
            min=1,
            help="Stop after this many tokens, prompts and replies together.",
            rich_help_panel=ANSWERS,
        ),
    ] = None,
    records_per_part: Annotated[
        int | None,
        typer.Option("--records-per-file", min=1, help="Records per file.", rich_help_panel=OUTPUT),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option("--jobs", "-j", min=1, help="Worker processes (default: one per core).", rich_help_panel=PART),
    ] = None,
    ray: Annotated[
        str | None,
        typer.Option(
            "--ray", metavar="ADDRESS", help="Build on a Ray cluster: auto, host:port or local.", rich_help_panel=PART
        ),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Make only the records that are missing in the folder.", rich_help_panel=PART),
    ] = False,
    shard: Annotated[
        str,
        typer.Option("--shard", metavar="I/N", help="Make only part I of N of the grid.", rich_help_panel=PART),
    ] = "1/1",
    limit: Annotated[
        int | None, typer.Option("--limit", min=0, help="Stop after this many records.", rich_help_panel=PART)
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Show what would be made, with one prompt, and make nothing.", rich_help_panel=PART
        ),
    ] = False,
    init: Annotated[
        bool, typer.Option("--init", help="Write a grid file that explains every key.", rich_help_panel=PART)
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the counts as JSON.", rich_help_panel=OUTPUT)] = False,
) -> None:
    r"""Build the prompts of a grid: all combinations of cards, personas, presets, chats, messages and seeds.

    Records go to part files in --out, with manifest.json. After an interruption, --resume makes the missing records,
    even if you added inputs. Exits with 1 if records have errors, and with 4 if the model did not answer some requests
    (--resume asks again). If stderr is not a terminal, progress is printed every ten seconds as a line of JSON.

    \b
    tavernkit batch --init grid.toml
    tavernkit batch grid.toml --dry-run
    tavernkit batch grid.toml --out results/ --jobs 8
    tavernkit batch grid.toml --out results/ --shard 3/16 --resume
    tavernkit batch grid.toml --out results/ --ray auto
    tavernkit batch grid.toml --out requests/ --format openai-batch --model gpt-4o-mini
    tavernkit batch grid.toml --out replies/ --generate --model openai:my-model --base-url http://localhost:8000
    """
    from tavernkit._values import counted
    from tavernkit.batching import GenerateOptions, Grid
    from tavernkit.batching import batch as run_batch
    from tavernkit.cli.terminal import complain, show_progress

    if init:
        _write_template(grid or Path("grid.toml"), as_json=as_json)
        return
    if grid is None:
        raise typer.BadParameter("name a grid file, or write one with --init")
    part = _shard(shard)
    read = Grid.load(grid)
    if dry_run:
        _show_plan(read, as_json=as_json)
        return
    if out is None:
        raise typer.BadParameter("name a folder for the records with --out DIR, or try --dry-run first")
    if form == "openai-batch" and not generate and not model:
        raise typer.BadParameter("--format openai-batch needs --model NAME")
    answers = None
    if generate:
        require_models()
        answers = GenerateOptions.read(
            read.generate,
            model=model,
            base_url=base_url,
            concurrency=concurrency,
            requests_per_second=requests_per_second,
            retries=retries,
            timeout=timeout,
            max_requests=max_requests,
            max_tokens=max_tokens,
        )
    with show_progress() as report:
        try:
            result = run_batch(
                read,
                out,
                jobs=jobs,
                ray=ray,
                resume=resume,
                shard=part,
                limit=limit,
                format=form,  # pyright: ignore[reportArgumentType]  # one of the choices
                model="" if form != "openai-batch" else model or "",
                generate=answers,
                records_per_part=records_per_part,
                progress=report,
            )
        except KeyboardInterrupt:
            _report_interrupt(out)
            raise typer.Exit(ExitCode.INTERRUPTED) from None
    _show_result(result, as_json=as_json)
    if result.unanswered:
        complain(f"{counted(result.unanswered, 'request')} without a reply, the last with {result.problem}")
        raise typer.Exit(ExitCode.MODEL)
    if result.failed:
        raise typer.Exit(ExitCode.PROBLEMS)


def _write_template(target: Path, *, as_json: bool) -> None:
    from importlib.resources import files

    from tavernkit.cli.files import check_free
    from tavernkit.cli.terminal import show, show_report

    check_free(target)
    target.write_text(files("tavernkit.batching").joinpath("template.toml").read_text(encoding="utf-8"), "utf-8")
    if as_json:
        show_report({"file": str(target)})
    else:
        show(f"Wrote {target}. Look at what it makes with: tavernkit batch {target} --dry-run")


def _shard(text: str) -> tuple[int, int]:
    number, slash, count = text.partition("/")
    if not (slash and number.isdigit() and count.isdigit() and 1 <= int(number) <= int(count)):
        raise typer.BadParameter(f"--shard is I/N with I from 1 to N, such as 3/16, not {text!r}")
    return int(number), int(count)


def _show_plan(grid: Grid, *, as_json: bool) -> None:
    from tavernkit._values import counted
    from tavernkit.batching import iter_batch
    from tavernkit.cli.terminal import complain, show, show_report, table

    first = next(iter_batch(grid, limit=1), None)
    if as_json:
        counts = {"records": len(grid), "duplicates": grid.duplicates, "sizes": grid.sizes}
        show_report({**counts, "first": first.to_dict() if first is not None else None})
        return
    show(table("axis", ">values", rows=[[axis, str(size)] for axis, size in grid.sizes.items()]))
    show(f"\n{counted(len(grid), 'record')}")
    if grid.duplicates:
        complain(f"{counted(grid.duplicates, 'row')} of the grid are duplicates and count once")
    if first is not None and first.error is not None:
        complain(f"the first record: {first.error['message']}")
    elif first is not None:
        show(f"\nThe first has {first.tokens} tokens:\n")
        for message in first.messages or ({"role": "prompt", "content": first.prompt},):
            show(f"[{message.get('role')}] {message.get('content')}")


def _show_result(result: BatchResult, *, as_json: bool) -> None:
    import json

    from tavernkit._values import counted
    from tavernkit.cli.terminal import SCHEMA_VERSION, show

    if as_json or not sys.stdout.isatty():
        report = {"schema_version": SCHEMA_VERSION, "folder": str(result.folder), **result.to_dict()}
        sys.stdout.write(json.dumps(report) + "\n")
        return
    show(f"{counted(result.records, 'record')} in {result.folder}: {result.made} made, {result.skipped} from before")
    if result.status in _STOPPED:
        show(f"{_STOPPED[result.status]}: continue with --resume")
    if result.failed:
        where = "errors-*.jsonl" if any(result.folder.glob("errors-*")) else "the field 'error' of the records"
        show(f"{counted(result.failed, 'record')} with an error: see {where}")
    if result.stale:
        show(f"{counted(result.stale, 'record')} are no longer in the grid: moved to stale.jsonl")


_STOPPED = {
    "limited": "stopped by --limit",
    "budget": "stopped by --max-requests or --max-tokens",
    "failed": "the model did not answer everything",
}


def _report_interrupt(out: Path) -> None:
    from tavernkit.cli.terminal import complain

    complain(f"interrupted: finished records are in {out}; continue with --resume")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("batch")(batch)
