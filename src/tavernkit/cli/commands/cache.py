"""``tavernkit cache``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tavernkit.cli.build_options import BuildOptions
from tavernkit.cli.options import takes

if TYPE_CHECKING:
    from tavernkit.cache import ReplayedTurn
    from tavernkit.cli.inputs import Prepared
    from tavernkit.prompt import Moved

OUTPUT = "What comes out"


@takes(BuildOptions, without=("message", "generation_type"))
def cache(
    options: BuildOptions,
    profile: Annotated[
        str,
        typer.Option(
            "--profile",
            metavar="NAME",
            help="openai, anthropic, google, deepseek, openrouter, llama_cpp or vllm.",
            rich_help_panel=OUTPUT,
        ),
    ] = "openai",
    pauses: Annotated[
        bool,
        typer.Option(
            "--pauses",
            help="Empty the cache after long pauses between messages, as providers do.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
    keep: Annotated[
        bool,
        typer.Option(
            "--keep",
            help='Build prompts that keep the cache: strategy="cache", lore="freeze", volatile="tail".',
            rich_help_panel=OUTPUT,
        ),
    ] = False,
    html: Annotated[
        Path | None, typer.Option("--html", help="Write a self-contained page to this file.", rich_help_panel=OUTPUT)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.", rich_help_panel=OUTPUT)] = False,
) -> None:
    r"""Replay a chat and show what a provider's prompt cache would save, turn by turn, and what breaks it.

    Costs are in tokens of uncached input.

    \b
    tavernkit cache aria.png --chat chat.jsonl --profile anthropic
    tavernkit cache aria.png --chat chat.jsonl --book world.json --context-length 8192
    tavernkit cache aria.png --chat chat.jsonl --profile anthropic --keep
    tavernkit cache aria.png --chat chat.jsonl --profile llama_cpp --json
    """
    from tavernkit.cache import PromptCache
    from tavernkit.cli.files import refuse_input, write_text
    from tavernkit.cli.inputs import prepare
    from tavernkit.cli.terminal import show, show_report
    from tavernkit.cli.views import cache_summary, cache_table, causes_table, moved_table

    if options.chat is None and options.from_sillytavern is None and options.from_risuai is None:
        raise typer.BadParameter("name the chat to replay with --chat")
    refuse_input(html, *options.files)
    predicted = PromptCache(profile)
    before: datetime | None = None
    moved: Sequence[Moved] = ()
    prepared = prepare(options)
    for turn in _turns(prepared, profile if keep else None):
        idle = (turn.at - before).total_seconds() if pauses and turn.at is not None and before is not None else 0.0
        predicted.send(turn.spans, idle_seconds=idle)
        before = turn.at if turn.at is not None else before
        moved = turn.plan.moved
    report = predicted.report
    if not report.turns:
        raise typer.BadParameter("the chat has no reply, so there is no prompt to replay")
    if html is not None:
        from tavernkit.report import render_cache_html

        title = f"{prepared.character_name}: what a prompt cache keeps"
        write_text(html, render_cache_html(report, title=title, moved=moved))
    if as_json:
        show_report({**report.to_dict(), "moved": [asdict(each) for each in moved]})
        return
    show(cache_table(report), "", cache_summary(report))
    if report.causes:
        show("", causes_table(report))
    if moved:
        show("", moved_table(moved))
    for sentence in report.advice():
        show("", f"→ {sentence}")
    if html is not None:
        show(f"\nThe report is in {html}")


def _turns(prepared: Prepared, kept_for: str | None) -> Iterator[ReplayedTurn]:
    """Return the requests of the chat, oldest first; optionally built to keep a profile's cache."""
    from tavernkit import risu_ai, silly_tavern

    builder = prepared.builder
    if isinstance(builder, risu_ai.Builder):
        if kept_for is None:
            return risu_ai.replay(builder)
        return risu_ai.replay(builder, strategy="cache", lore="freeze", volatile="tail", cache_profile=kept_for)
    if kept_for is None:
        return silly_tavern.replay(builder)
    return silly_tavern.replay(builder, strategy="cache", lore="freeze", volatile="tail", cache_profile=kept_for)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("cache")(cache)
