"""``tavernkit macros``."""

from __future__ import annotations

import random
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from tavernkit.cli.exit_codes import ExitCode

app = typer.Typer(no_args_is_help=True, help="SillyTavern's macros: list them, try them.")


@app.command("list")
def list_macros(
    search: Annotated[str, typer.Argument(help="Only macros with this in name or description.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    r"""List every macro: how it is written and what it gives.

    \b
    tavernkit macros list
    tavernkit macros list var
    """
    from tavernkit.cli.terminal import show, show_json, table
    from tavernkit.silly_tavern.macros import default_registry

    wanted = search.lower()
    found = [
        each
        for each in default_registry().describe()
        if wanted in " ".join((each.name, *each.aliases, each.description)).lower()
    ]
    if as_json:
        show_json(
            [
                {
                    "name": each.name,
                    "usage": each.usage,
                    "category": each.category,
                    "aliases": list(each.aliases),
                    "description": each.description,
                    "example": each.example,
                }
                for each in found
            ]
        )
        return
    rows = [(each.category, each.usage, each.description, ", ".join(each.aliases)) for each in found]
    show(table("category", "macro", "what it gives", "also", rows=rows), f"\n{len(rows)} macros")


@app.command("eval")
def evaluate(
    text: Annotated[str, typer.Argument(help="The text to expand.", show_default=False)],
    card: Annotated[Path | None, typer.Option("--card", help="Character card that macros read.")] = None,
    user: Annotated[str, typer.Option("--user", "-u", help="The user's name.")] = "User",
    char: Annotated[str, typer.Option("--char", help="The character's name (default: the card's).")] = "",
    variable: Annotated[
        list[str] | None, typer.Option("--var", help="A chat variable, name=value; may be repeated.")
    ] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Makes dice repeatable.")] = None,
    now: Annotated[datetime | None, typer.Option("--now", help="The time macros see (UTC).")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 if anything is wrong.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON with diagnostics and variables.")] = False,
) -> None:
    r"""Expand the macros of a text.

    \b
    tavernkit macros eval "{{user}} meets {{char}}" --user Ann --char Aria
    tavernkit macros eval "{{setvar::hp::10}}{{getvar::hp}} of {{roll::1d20}}" --seed 1
    tavernkit macros eval "{{description}}" --card aria.png
    """
    from tavernkit.cli.inputs import fixed_clock, load_card
    from tavernkit.cli.terminal import complain, show_json, show_text
    from tavernkit.silly_tavern.macros import MacroEngine, MacroEnvironment
    from tavernkit.stores import InMemoryVariablesStore

    environment = MacroEnvironment(
        user_name=user, character_name=char, variables=InMemoryVariablesStore({"local": variables(variable)})
    )
    if card is not None:
        character = load_card(card).character
        environment = environment.replace(character=character, character_name=char or character.name)
    if seed is not None:
        environment = environment.replace(random=random.Random(seed).random)
    if now is not None:
        environment = environment.replace(clock=fixed_clock(now))
    result = MacroEngine().evaluate(text, environment)
    if as_json:
        found = [
            {"kind": each.kind, "message": each.message, "macro": each.macro, "position": each.position}
            for each in result.diagnostics
        ]
        show_json({"text": result.text, "diagnostics": found})
    else:
        show_text(result.text)
        for each in result.diagnostics:
            complain(str(each))
    if strict and result.diagnostics:
        raise typer.Exit(ExitCode.PROBLEMS)


def variables(given: list[str] | None) -> dict[str, str]:
    """Read ``name=value`` options."""
    found: dict[str, str] = {}
    for each in given or ():
        name, sign, value = each.partition("=")
        if not sign or not name:
            raise typer.BadParameter(f"{each!r} is not of the form name=value")
        found[name] = value
    return found


def register(root: typer.Typer) -> None:
    """Add the commands."""
    root.add_typer(app, name="macros")
