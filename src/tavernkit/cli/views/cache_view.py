"""What a prompt cache saves, in the terminal: a row and a bar per turn, and what broke it."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from tavernkit.cache import CacheReport, CacheTurn
from tavernkit.cli.terminal import console, table, visible
from tavernkit.prompt import Moved

BAR_WIDTH = 28
NARROW = 90
"""Columns of a terminal from which a table has room for reasons."""


def cache_table(report: CacheReport) -> RenderableType:
    """Return one row per turn, with a bar of cached and other tokens."""
    longest = max(turn.tokens for turn in report.turns)
    wide = console().width >= NARROW
    rows = (
        (
            str(turn.number),
            f"{turn.tokens:,}",
            f"{turn.cached_tokens:,}",
            f"{turn.share:.0%}",
            f"{turn.cost:,.0f}",
            _bar(turn, longest),
            *([_why(turn)] if wide else []),
        )
        for turn in report.turns
    )
    return table(">turn", ">tokens", ">cached", ">share", ">cost", "", *["what broke it"] * wide, rows=rows)


def cache_summary(report: CacheReport) -> RenderableType:
    """Return the totals in two lines."""
    saved = 1 - report.cost / report.tokens if report.tokens else 0
    return Group(
        Text.assemble(
            (f"{report.share:.1%} cached", "bold"),
            f" of {report.tokens:,} tokens in {len(report.turns)} requests (profile {report.profile.name})",
        ),
        Text(
            f"cost {report.cost:,.0f} tokens of uncached input: "
            + (f"{saved:.0%} saved" if saved >= 0 else f"{-saved:.0%} more than without a cache"),
            style="dim",
        ),
    )


def causes_table(report: CacheReport) -> RenderableType:
    """Return a table of what broke the cache, worst first."""
    rows = ((one.cause, str(times), f"{lost:,}", one.origin.title, one.reason) for one, times, lost in report.causes)
    return table("cause", ">times", ">tokens lost", "source", "for example", rows=rows, title="What broke it")


def moved_table(moved: Sequence[Moved]) -> RenderableType:
    """Return a table of what a cache strategy moved in the last prompt."""
    rows = (
        (each.name, "" if each.tokens is None else str(each.tokens), each.place, each.reference, each.reason)
        for each in moved
    )
    return table("what", ">tokens", "where", "instead of", "why", rows=rows, title="Moved, in the last prompt")


def _bar(turn: CacheTurn, longest: int) -> Text:
    width = round(BAR_WIDTH * turn.tokens / longest) if longest else 0
    cached = round(width * turn.share)
    return Text.assemble(("█" * cached, "green"), ("░" * (width - cached), "yellow"))


def _why(turn: CacheTurn) -> Text:
    if turn.broken is None:
        return Text("" if turn.number > 1 else "first request", style="dim")
    return Text(visible(turn.broken.reason), style="" if turn.broken.avoidable else "dim")
