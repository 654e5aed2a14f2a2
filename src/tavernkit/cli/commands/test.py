"""``tavernkit test``."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tavernkit.cli.options import Platform, choice_option
from tavernkit.cli.process import ExitCode

if TYPE_CHECKING:
    from tavernkit._values import JsonObject
    from tavernkit.authoring import CaseResult

POLL_SECONDS = 0.5


def run_tests(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Test files (*.tavern.yaml, *.lore.yaml) or folders; with --record cards and books.",
            show_default=False,
        ),
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Run again whenever a file changes.")] = False,
    junit: Annotated[
        Path | None, typer.Option("--junit", help="Write a JUnit report for build servers.", show_default=False)
    ] = None,
    record: Annotated[
        Path | None,
        typer.Option("--record", help="Write a first test from the current prompt.", show_default=False),
    ] = None,
    message: Annotated[
        str, typer.Option("--message", "-m", help="With --record: what the user says.", show_default=False)
    ] = "",
    platform: Annotated[
        Platform,
        choice_option(tuple(Platform), "--platform", "-p", help="With --record: the program whose rules to follow."),
    ] = Platform.SILLY_TAVERN,
    schema: Annotated[bool, typer.Option("--schema", help="Print the JSON schema of test files.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    r"""Test cards, lorebooks and presets: which lore fires, what is in the prompt, how large it is.

    Exits with 1 if a test fails.

    \b
    tavernkit test                        # every *.tavern.yaml and *.lore.yaml below this folder
    tavernkit test cards/ --junit report.xml
    tavernkit test --record aria.tavern.yaml aria.png world.json --message "Who lit the lamp?"
    """
    from tavernkit.authoring import case_schema, results_as_json
    from tavernkit.cli.files import refuse_input
    from tavernkit.cli.terminal import show, show_json, show_report

    if schema:
        show_json(case_schema())
        return
    if record is not None:
        _record(record, paths or [], message, platform)
        if as_json:
            show_report({"file": str(record)})
        else:
            show(f"Wrote {record}. Read it, and keep what you want.")
        return
    while True:
        files = _files(paths or [Path()])
        refuse_input(junit, files)
        results = _run(files, junit)
        if as_json:
            show_json(results_as_json(results))
        else:
            _print(results)
        if not watch:
            break
        wait_for_change(_watch(paths or [Path()]), time.sleep)
    if not all(result.passed for result in results):
        raise typer.Exit(ExitCode.PROBLEMS)


def wait_for_change(watched: Callable[[], dict[Path, float]], wait: Callable[[float], None]) -> None:
    """Return when a file was changed, added or removed; ``wait`` is called between checks."""
    before = watched()
    while watched() == before:
        wait(POLL_SECONDS)


def _watch(paths: list[Path]) -> Callable[[], dict[Path, float]]:
    """Return everything below the folders of the tests, because tests depend on cards and books."""

    def look() -> dict[Path, float]:
        folders = dict.fromkeys(path if path.is_dir() else path.parent for path in paths)
        found = (file for folder in folders for file in folder.rglob("*"))
        return {file: file.stat().st_mtime for file in found if file.is_file()}

    return look


def _files(paths: list[Path]) -> list[Path]:
    from tavernkit.authoring._case_file import SUFFIXES

    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            found += sorted(each for each in path.rglob("*") if each.name.endswith(SUFFIXES))
        elif path.exists():
            found.append(path)
        else:
            raise typer.BadParameter(f"there is no file or folder {str(path)!r}")
    if not found:
        where = ", ".join(repr(str(path)) for path in paths)
        raise typer.BadParameter(f"there is no test file (*{SUFFIXES[0]}) in {where}")
    return found


def _run(files: list[Path], junit: Path | None) -> list[CaseResult]:
    from tavernkit.authoring import results_as_junit
    from tavernkit.cli.case_runner import run_file
    from tavernkit.cli.files import write_text
    from tavernkit.cli.terminal import track

    results = [result for file in track(files, "testing") for result in run_file(file)]
    if junit is not None:
        write_text(junit, results_as_junit(results))
    return results


def _print(results: list[CaseResult]) -> None:
    from rich.text import Text

    from tavernkit._values import counted
    from tavernkit.cli.terminal import show, visible

    for result in results:
        mark = ("ok      ", "green") if result.passed else ("FAILED  ", "bold red")
        place = f"  {result.file}  {result.platform}" if result.platform else ""  # of a file, the name says it
        show(Text.assemble(mark, (visible(result.name), "bold"), (visible(place), "dim")))
        for failure in result.failures:
            show(f"          {failure}")
    failed = sum(not result.passed for result in results)
    show("", f"{counted(len(results), 'test')}: {len(results) - failed} passed, {failed} failed")


def _record(target: Path, paths: list[Path], message: str, platform: Platform) -> None:
    from tavernkit.authoring import record_case
    from tavernkit.cli.build_options import BuildOptions
    from tavernkit.cli.case_runner import MAX_ROWS
    from tavernkit.cli.files import check_free, write_text
    from tavernkit.cli.inputs import build_plan
    from tavernkit.lint import FileKind
    from tavernkit.lint._files import recognise
    from tavernkit.report import lore_rows

    check_free(target)
    cards = [path for path in paths if recognise(path)[0] is FileKind.CARD]
    if len(cards) != 1:
        raise typer.BadParameter("name one card, and the books that belong to it")
    books = [path for path in paths if path not in cards]
    options = BuildOptions(card=cards[0], book=books or None, message=message, platform=platform, seed=0)
    plan = build_plan(options)
    inputs: JsonObject = {
        "card": _relative_path(cards[0], target),
        "message": message,
        "seed": 0,
        "platforms": [platform.value],
    }
    if books:
        inputs["books"] = [_relative_path(book, target) for book in books]
    rows = lore_rows(plan.lore_result, limit=MAX_ROWS)
    write_text(target, record_case(f"as of now: {message}", inputs, plan, rows))


def _relative_path(path: Path, target: Path) -> str:
    """Return the path of a file relative to a test file."""
    return Path(os.path.relpath(path, target.parent)).as_posix()


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("test")(run_tests)
