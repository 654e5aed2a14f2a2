"""``tavernkit explain``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tavernkit.cli.build_options import BuildOptions
from tavernkit.cli.options import takes

if TYPE_CHECKING:
    from tavernkit.prompt._plan import Plan

OUTPUT = "What comes out"


@takes(BuildOptions)
def explain(
    options: BuildOptions,
    lore: Annotated[
        bool, typer.Option("--lore", help="Show why each lore entry fired or did not.", rich_help_panel=OUTPUT)
    ] = False,
    tree: Annotated[
        bool, typer.Option("--tree", help="Show the prompt as a tree by source.", rich_help_panel=OUTPUT)
    ] = False,
    where: Annotated[
        str | None,
        typer.Option("--where", help="Show where these words of the prompt come from.", rich_help_panel=OUTPUT),
    ] = None,
    tokens: Annotated[
        bool, typer.Option("--tokens", help="Show what each entry, field and prompt costs.", rich_help_panel=OUTPUT)
    ] = False,
    html: Annotated[
        Path | None, typer.Option("--html", help="Write a self-contained page to this file.", rich_help_panel=OUTPUT)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.", rich_help_panel=OUTPUT)] = False,
) -> None:
    r"""Show where every part of a prompt comes from, what it costs, and what was left out and why.

    \b
    tavernkit explain aria.png --book world.json --chat chat.jsonl --message "The lamp?"
    tavernkit explain aria.png --book world.json --message "The lamp?" --lore
    tavernkit explain aria.png --book world.json --message "The lamp?" --where "oil for the lamp"
    tavernkit explain aria.png --chat chat.jsonl --html report.html
    """
    from tavernkit.cli import views
    from tavernkit.cli.files import refuse_input, write_text
    from tavernkit.cli.inputs import prepare
    from tavernkit.cli.terminal import show, show_report
    from tavernkit.report import overview

    refuse_input(html, *options.files)
    prepared = prepare(options)
    plan = prepared.build()
    view = overview(plan, sources=as_json or tokens or html is not None)
    if html is not None:
        from tavernkit.report import render_html

        title = f"{prepared.character_name}: what the model sees"
        write_text(html, render_html(view, title=title, messages=plan.to_messages(options.dialect)))
    if where is not None:
        _show_where(plan, where, as_json=as_json)
        return
    if as_json:
        show_report(view.to_dict())
        return
    if tokens:
        show(views.costs_table(plan.source_map()))
    elif lore:
        show(views.lore_table(view.lore) if view.lore else "There is no lorebook.")
    else:
        show(views.plan_tree(view) if tree else views.plan_table(view))
        for part in (
            views.token_bar(view),
            views.left_out_table(view),
            views.warnings_view(view.warnings),
            views.hints_view(view.hints),
        ):
            if part is not None:
                show("", part)
    if html is not None:
        show(f"\nThe report is in {html}")


def _show_where(plan: Plan, words: str, *, as_json: bool) -> None:
    """Show where words come from; for words that are not in the prompt, where they are and why they were left out."""
    from tavernkit.cli import views
    from tavernkit.cli.terminal import show, show_report

    sources = plan.source_map()
    places = sources.where(words)
    elsewhere = [sources.uses(each)[0] for each in sources.given if words in each.text] if not places and words else []
    if as_json:
        show_report({"places": [each.to_dict() for each in places], "left_out": [each.to_dict() for each in elsewhere]})
    elif places:
        show(views.places_view(places, sources))
    else:
        show(f"{words!r} is not in the prompt.")
        if elsewhere:
            show("", views.left_out_sources(elsewhere))
    if not places:
        raise typer.Exit(1)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("explain")(explain)
