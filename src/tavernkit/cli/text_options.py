"""Options for expanding one text, shared by macros and CBS."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Protocol

import typer

from tavernkit._dataclass import dataclass
from tavernkit.cli.exit_codes import ExitCode

if TYPE_CHECKING:
    from tavernkit._values import Json


@dataclass(frozen=True, kw_only=True)
class TextOptions:
    """The options of every command that expands a text."""

    given: Annotated[str, typer.Argument(metavar="TEXT", help="The text to expand; - is stdin.", show_default=False)]
    card: Annotated[
        Path | None, typer.Option("--card", help="Character card that the text may refer to; - is stdin.")
    ] = None
    user: Annotated[str, typer.Option("--user", "-u", help="The user's name.")] = "User"
    char: Annotated[str, typer.Option("--char", help="The character's name (default: the card's).")] = ""
    variable: Annotated[
        list[str] | None, typer.Option("--var", help="A chat variable, name=value; may be repeated.")
    ] = None
    seed: Annotated[int | None, typer.Option("--seed", help="Makes dice repeatable.")] = None
    now: Annotated[datetime | None, typer.Option("--now", help="The time that the text sees (UTC).")] = None
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 if anything is wrong.")] = False
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON with diagnostics.")] = False

    @property
    def text(self) -> str:
        """The text to expand."""
        from tavernkit.cli.files import STDIN, read_text

        return read_text(Path(STDIN)).removesuffix("\n") if self.given == STDIN else self.given

    @property
    def variables(self) -> dict[str, Json]:
        """The chat variables."""
        return dict(named_values(self.variable))


class Found(Protocol):
    """A problem in the text."""

    @property
    def kind(self) -> str:
        """The kind of problem."""
        ...

    @property
    def message(self) -> str:
        """What was wrong."""
        ...

    @property
    def position(self) -> int | None:
        """The position in the text."""
        ...


def named_values(given: Sequence[str] | None) -> dict[str, str]:
    """Read ``name=value`` options."""
    found: dict[str, str] = {}
    for each in given or ():
        name, sign, value = each.partition("=")
        if not sign or not name:
            raise typer.BadParameter(f"{each!r} is not of the form name=value")
        found[name] = value
    return found


def show_expanded(options: TextOptions, text: str, diagnostics: Sequence[Found]) -> None:
    """Print an expanded text and its warnings."""
    from tavernkit.cli.terminal import complain, show_report, show_text

    if options.as_json:
        found: list[Json] = [
            {"kind": each.kind, "message": each.message, "position": each.position} for each in diagnostics
        ]
        show_report({"text": text, "diagnostics": found})
    else:
        show_text(text)
        for each in diagnostics:
            complain(str(each))
    if options.strict and diagnostics:
        raise typer.Exit(ExitCode.PROBLEMS)
