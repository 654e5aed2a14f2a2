"""``tavernkit cbs``."""

from __future__ import annotations

import random
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from tavernkit.cli.commands.macros import variables
from tavernkit.cli.exit_codes import ExitCode

app = typer.Typer(no_args_is_help=True, help="RisuAI's CBS: list its functions, try texts.")


@app.command("list")
def list_functions(
    search: Annotated[str, typer.Argument(help="Only functions with this in name or description.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    r"""List every CBS function: how it is written and what it gives.

    \b
    tavernkit cbs list
    tavernkit cbs list array
    """
    from tavernkit.cli.terminal import show, show_json, table
    from tavernkit.risu_ai.cbs import standard_registry

    wanted = search.lower()
    found = [
        each
        for functions in standard_registry().describe().values()
        for each in functions
        if wanted in " ".join((each.name, *each.aliases, each.doc)).lower()
    ]
    if as_json:
        show_json(
            [
                {
                    "name": each.name,
                    "subject": each.subject,
                    "arguments": list(each.arguments),
                    "aliases": list(each.aliases),
                    "description": each.doc,
                }
                for each in found
            ]
        )
        return
    rows = [
        (each.subject, "{{" + "::".join((each.name, *each.arguments)) + "}}", each.doc.partition("\n")[0])
        for each in found
    ]
    show(table("subject", "function", "what it gives", rows=rows), f"\n{len(rows)} functions")


@app.command("eval")
def evaluate(
    text: Annotated[str, typer.Argument(help="The text to expand.", show_default=False)],
    card: Annotated[Path | None, typer.Option("--card", help="Character card that the text may ask about.")] = None,
    user: Annotated[str, typer.Option("--user", "-u", help="The user's name.")] = "User",
    char: Annotated[str, typer.Option("--char", help="The character's name (default: the card's).")] = "",
    variable: Annotated[
        list[str] | None, typer.Option("--var", help="A chat variable, name=value; may be repeated.")
    ] = None,
    toggle: Annotated[list[str] | None, typer.Option("--toggle", help="A toggle, name=value; may be repeated.")] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Makes dice repeatable.")] = None,
    now: Annotated[datetime | None, typer.Option("--now", help="The time the text sees (UTC).")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 if anything is wrong.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON with warnings.")] = False,
) -> None:
    r"""Expand a CBS text; variables may be written.

    \b
    tavernkit cbs eval "{{user}} meets {{char}}" --user Ann --char Aria
    tavernkit cbs eval "{{#if {{? {{getvar::hp}} > 3}}}}alive{{/if}}" --var hp=7
    """
    from tavernkit.cli.inputs import fixed_clock, load_card
    from tavernkit.cli.terminal import complain, show_json, show_text
    from tavernkit.errors import WarningLog
    from tavernkit.risu_ai import character_from_card
    from tavernkit.risu_ai.cbs import CBSEngine
    from tavernkit.risu_ai.context import RisuContext
    from tavernkit.stores import InMemoryVariablesStore

    context = RisuContext(
        char=char or (character_from_card(load_card(card)) if card is not None else "Character"),
        user=user,
        writes="run",
        variables=InMemoryVariablesStore({"local": variables(variable)}),
        toggles=variables(toggle),
        random=random.Random(seed).random,
    )
    if now is not None:
        context = context.replace(clock=fixed_clock(now))
    warnings = WarningLog()
    expanded = CBSEngine().expand(text, context, warn=warnings)
    if as_json:
        show_json({"text": expanded, "warnings": list(warnings.messages)})
    else:
        show_text(expanded)
        for message in warnings.messages:
            complain(message)
    if strict and warnings.messages:
        raise typer.Exit(ExitCode.PROBLEMS)


def register(root: typer.Typer) -> None:
    """Add the commands."""
    root.add_typer(app, name="cbs")
