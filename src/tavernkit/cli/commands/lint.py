"""``tavernkit lint``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tavernkit.cli.options import Platform, choice_option
from tavernkit.cli.process import ExitCode

if TYPE_CHECKING:
    from tavernkit.authoring import Change
    from tavernkit.lint import FileKind, Finding

SUFFIXES = frozenset(
    {
        ".json",
        ".png",
        ".charx",
        ".byaf",
        ".webp",
        ".jpg",
        ".jpeg",
        ".apng",
        ".yaml",
        ".yml",
        ".lorebook",
        ".risup",
        ".risupreset",
        ".risum",
        ".jinja",
        ".jinja2",
        ".j2",
    }
)
"""The files of a folder that are checked."""


def lint(
    paths: Annotated[
        list[Path],
        typer.Argument(help="Cards, books, presets, templates, regex scripts, or folders.", show_default=False),
    ],
    fix: Annotated[
        bool, typer.Option("--fix", help="Repair what can be repaired without changing any prompt.")
    ] = False,
    backup: Annotated[bool, typer.Option("--backup", help="With --fix: keep the old file as FILE.bak.")] = False,
    platform: Annotated[
        Platform | None,
        choice_option(tuple(Platform), "--platform", "-p", help="Check texts for one program only."),
    ] = None,
    budget: Annotated[int, typer.Option("--budget", help="Tokens that lore may take.")] = 2048,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 for warnings too.")] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Leave out findings that are only informational.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    r"""Find mistakes and surprises: schema problems, unknown macros, lore that cannot fire, slow regexes.

    Exits with 1 if there are errors (with --strict, also for warnings).

    Other files in a folder are skipped. A .tavernlint file lists findings to suppress.

    \b
    tavernkit lint aria.png world.json
    tavernkit lint cards/ --quiet
    tavernkit lint world.json --fix
    """
    from tavernkit.cards import Severity
    from tavernkit.cli.terminal import show_report, track
    from tavernkit.lint import lint_file, without_suppressed

    files, skipped = _files(paths)
    if not files:
        raise typer.BadParameter(f"there is nothing to check in {', '.join(map(str, paths))}")
    results: list[tuple[Path, FileKind, list[Finding]]] = []
    fixed: dict[Path, list[Change]] = {}
    suppressed = 0
    for path in track(files, "checking"):
        changes = _fix(path, backup=backup) if fix else None
        if changes is not None:
            fixed[path] = changes
        kind, found = lint_file(path, budget=budget, language=platform.value if platform is not None else "any")
        kept, left_out = without_suppressed(path, found)
        suppressed += left_out
        results.append((path, kind, [each for each in kept if not quiet or each.severity is not Severity.INFO]))
    if as_json:
        show_report(
            {
                "files": [
                    {
                        "file": str(path),
                        "kind": str(kind),
                        "fixed": path in fixed,
                        "changes": [each.to_dict() for each in fixed.get(path, ())],
                        "findings": [each.to_dict() for each in found],
                    }
                    for path, kind, found in results
                ]
            }
        )
    else:
        _print(results, fixed, skipped, suppressed)
    bad = {Severity.ERROR, Severity.WARNING} if strict else {Severity.ERROR}
    if any(each.severity in bad for _, _, found in results for each in found):
        raise typer.Exit(ExitCode.PROBLEMS)


def _fix(path: Path, *, backup: bool) -> list[Change] | None:
    """Repair a file and return the changes; empty if there was nothing to repair."""
    from tavernkit.authoring import diff_values
    from tavernkit.authoring._differences import file_value
    from tavernkit.errors import TavernKitError, WarningLog
    from tavernkit.lint import fix_file

    try:
        before = file_value(path, warn=WarningLog())
        if not fix_file(path, backup=backup):
            return None
        return diff_values(before, file_value(path, warn=WarningLog()))
    except TavernKitError:
        return None  # an unreadable file is a finding


def _files(paths: list[Path]) -> tuple[list[Path], int]:
    """Return the files to check, and how many others are in the folders."""
    from tavernkit.lint import is_known

    found: list[Path] = []
    skipped = 0
    for path in paths:
        if path.is_dir():
            inside = sorted(each for each in path.rglob("*") if each.is_file() and not each.name.startswith("."))
            known = [each for each in inside if each.suffix.lower() in SUFFIXES and is_known(each)]
            skipped += len(inside) - len(known)
            found += known
        elif not path.exists():
            raise typer.BadParameter(f"there is no file or folder {str(path)!r}")
        elif path.suffix.lower() == ".jsonl":
            raise typer.BadParameter(f"{path} is a chat, and there is nothing to check in one")
        else:
            found.append(path)
    return found, skipped


def _print(
    results: list[tuple[Path, FileKind, list[Finding]]],
    fixed: Mapping[Path, Sequence[Change]],
    skipped: int,
    suppressed: int,
) -> None:
    from rich.text import Text

    from tavernkit._values import counted
    from tavernkit.cli.terminal import show, visible
    from tavernkit.lint import grouped

    styles = {"error": "bold red", "warning": "yellow", "info": "cyan"}
    counts = dict.fromkeys(styles, 0)
    for path, kind, found in results:
        note = ", repaired" if path in fixed else ""
        show(Text.assemble((visible(str(path)), "bold"), (f"  {kind}{note}", "dim")))
        for change in fixed.get(path, ()):
            show(Text(visible(f"  {change.kind} {change.where}"), style="green"))
        for each, count in grouped(found):
            counts[str(each.severity)] += count
            line = Text.assemble(
                ("  " + str(each.severity).ljust(8), styles[str(each.severity)]),
                (visible(each.place), "magenta"),
                f"  {visible(each.message)}",
                (f"  [{each.code}]", "dim"),
            )
            if count > 1:
                line.append(f"  and {counted(count - 1, 'more place')}", style="dim")
            if each.hint:
                line.append(f"\n          {visible(each.hint)}", style="dim italic")
            if each.fixable:
                line.append("  (--fix repairs it)", style="dim")
            show(line)
        if not found:
            show(Text("  no problems found", style="green"))
    found = (
        counted(counts[kind], word) for kind, word in (("error", "error"), ("warning", "warning"), ("info", "note"))
    )
    show("", f"{counted(len(results), 'file')}: {', '.join(found)}")
    if skipped:
        show(f"{counted(skipped, 'other file')} skipped")
    if suppressed:
        show(f"{counted(suppressed, 'finding')} left out by .tavernlint")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("lint")(lint)
