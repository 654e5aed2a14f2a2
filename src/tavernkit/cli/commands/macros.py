"""``tavernkit macros``."""

from __future__ import annotations

import random
from typing import Annotated

import typer

from tavernkit.cli.options import TextOptions, show_expanded, takes

app = typer.Typer(no_args_is_help=True, help="List and try SillyTavern's macros.")


@app.command("list")
def list_macros(
    search: Annotated[str, typer.Argument(help="Only macros with this text in their name or description.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    r"""List every macro, how to write it and what it returns.

    \b
    tavernkit macros list
    tavernkit macros list var
    """
    from tavernkit._values import counted
    from tavernkit.cli.terminal import show, show_report, table
    from tavernkit.silly_tavern._macros import default_registry

    wanted = search.lower()
    found = [
        each
        for each in default_registry().describe()
        if wanted in " ".join((each.name, *each.aliases, each.description)).lower()
    ]
    if as_json:
        show_report(
            {
                "macros": [
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
            }
        )
        return
    rows = [(each.category, each.usage, each.description, ", ".join(each.aliases)) for each in found]
    show(table("category", "macro", "what it gives", "also", rows=rows), f"\n{counted(len(rows), 'macro')}")


@app.command("eval")
@takes(TextOptions)
def evaluate(options: TextOptions) -> None:
    r"""Expand the macros of a text.

    \b
    tavernkit macros eval "{{user}} meets {{char}}" --user Ann --char Aria
    tavernkit macros eval "{{setvar::hp::10}}{{getvar::hp}} of {{roll::1d20}}" --seed 1
    tavernkit macros eval "{{description}}" --card aria.png
    """
    from tavernkit.cli.files import character_of, load_card
    from tavernkit.cli.inputs import fixed_clock
    from tavernkit.silly_tavern._macros import MacroEngine, MacroEnvironment
    from tavernkit.stores import InMemoryVariablesStore

    environment = MacroEnvironment(
        user_name=options.user,
        character_name=options.char,
        variables=InMemoryVariablesStore({"local": options.variables}),
    )
    if options.card is not None:
        character = character_of(load_card(options.card), options.card)
        environment = environment.replace(character=character, character_name=options.char or character.name)
    if options.seed is not None:
        environment = environment.replace(random=random.Random(options.seed).random)
    if options.now is not None:
        environment = environment.replace(clock=fixed_clock(options.now))
    result = MacroEngine().evaluate(options.text, environment)
    show_expanded(options, result.text, result.diagnostics)


def register(root: typer.Typer) -> None:
    """Add the commands."""
    root.add_typer(app, name="macros")
