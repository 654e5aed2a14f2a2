"""``tavernkit cbs``."""

from __future__ import annotations

import random
import re
from typing import Annotated

import typer

from tavernkit.cli.options import TextOptions, named_values, show_expanded, takes

app = typer.Typer(no_args_is_help=True, help="List and try RisuAI's CBS functions.")


@app.command("list")
def list_functions(
    search: Annotated[str, typer.Argument(help="Only functions with this text in their name or description.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    r"""List every CBS function, how to write it and what it returns.

    \b
    tavernkit cbs list
    tavernkit cbs list array
    """
    from tavernkit._values import counted
    from tavernkit.cli.terminal import show, show_report, table
    from tavernkit.risu_ai._cbs import standard_registry

    wanted = search.lower()
    found = [
        each
        for functions in standard_registry().describe().values()
        for each in functions
        if wanted in " ".join((each.name, *each.aliases, each.doc)).lower()
    ]
    if as_json:
        show_report(
            {
                "functions": [
                    {
                        "name": each.name,
                        "subject": each.subject,
                        "arguments": list(each.arguments),
                        "aliases": list(each.aliases),
                        "description": _plain(each.doc),
                    }
                    for each in found
                ]
            }
        )
        return
    rows = [
        (each.subject, "{{" + "::".join((each.name, *each.arguments)) + "}}", _plain(each.doc.partition("\n")[0]))
        for each in found
    ]
    show(table("subject", "function", "what it gives", rows=rows), f"\n{counted(len(rows), 'function')}")


def _plain(doc: str) -> str:
    """Remove the backticks around code."""
    return re.sub(r"``(.+?)``(?!`)", r"\1", doc)


@app.command("eval")
@takes(TextOptions)
def evaluate(
    options: TextOptions,
    toggle: Annotated[list[str] | None, typer.Option("--toggle", help="A toggle, name=value; may be repeated.")] = None,
) -> None:
    r"""Expand a CBS text. It may set variables.

    \b
    tavernkit cbs eval "{{user}} meets {{char}}" --user Ann --char Aria
    tavernkit cbs eval "{{#if {{? {{getvar::hp}} > 3}}}}alive{{/if}}" --var hp=7
    """
    from tavernkit.cli.files import load_card
    from tavernkit.cli.inputs import fixed_clock
    from tavernkit.risu_ai import character_from_card
    from tavernkit.risu_ai._cbs import CBSEngine
    from tavernkit.risu_ai._cbs.context import CBSContext
    from tavernkit.stores import InMemoryVariablesStore

    card = character_from_card(load_card(options.card)) if options.card is not None else "Character"
    context = CBSContext(
        char=options.char or card,
        user=options.user,
        writes="run",
        variables=InMemoryVariablesStore({"local": options.variables}),
        toggles=named_values(toggle),
        random=random.Random(options.seed).random,
    )
    if options.now is not None:
        context = context.replace(clock=fixed_clock(options.now))
    result = CBSEngine().evaluate(options.text, context)
    show_expanded(options, result.text, result.diagnostics)


def register(root: typer.Typer) -> None:
    """Add the commands."""
    root.add_typer(app, name="cbs")
