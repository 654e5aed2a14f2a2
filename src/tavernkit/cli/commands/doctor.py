"""``tavernkit doctor``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tavernkit.cli.process import ExitCode


def doctor(
    path: Annotated[
        Path,
        typer.Argument(
            help="A SillyTavern installation, its data folder or a user's folder, or a RisuAI save.", show_default=False
        ),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    r"""Show what is in an installation, what is in use, what is missing, and what is not supported.

    Reads every file, chats too. Exits with 1 if something cannot be read.

    \b
    tavernkit doctor SillyTavern/
    tavernkit doctor SillyTavern/data/default-user
    tavernkit doctor risuai-backup.bin
    """
    from tavernkit.authoring import examine
    from tavernkit.cli.terminal import complain, show, show_report, table, track

    if not path.exists():
        raise typer.BadParameter(f"there is no file or folder {str(path)!r}")
    found = examine(path, follow=track)
    if as_json:
        show_report({"found": [each.to_dict() for each in found]})
    else:
        for each in found:
            show(f"{each.kind}: {each.path}")
            rows = [*((name, str(count)) for name, count in each.counts), *each.used]
            show(table("what", "how many, or which", rows=rows))
            for line in each.unsupported:
                show(f"not reproduced: {line}")
            for line in each.missing:
                show(f"missing: {line}")
            show("")
        for each in found:
            for problem in each.problems:
                complain(problem)
    if any(each.problems for each in found):
        raise typer.Exit(ExitCode.PROBLEMS)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("doctor")(doctor)
