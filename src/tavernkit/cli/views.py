"""What commands show of a plan and of a prompt cache: blocks in the colours of their sources, bars, tables, a tree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.box import ROUNDED, SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from tavernkit._values import counted
from tavernkit.cli.terminal import console, table, visible
from tavernkit.report._overview import source_label, words_of

if TYPE_CHECKING:
    from tavernkit.cache import CacheReport, CacheTurn
    from tavernkit.lore import LoreRow
    from tavernkit.prompt import Moved
    from tavernkit.prompt._source_map import SourceMap
    from tavernkit.prompt._source_spans import Place, TextSource, Use
    from tavernkit.prompt._trace import Trace
    from tavernkit.report._overview import Overview, Part, Share

PREVIEW_LINES = 6
"""Lines of a block that are shown by default."""

LONGEST_BORDER_REASON = 60
"""Longer reasons are shown in the block, where they can take several lines."""

BAR_WIDTH, TURN_BAR_WIDTH = 72, 28

NARROW, WIDE = 60, 90
"""Columns of a terminal from which tables have room for reasons, and for texts as well."""


def blocks_view(view: Overview, *, everything: bool = False) -> RenderableType:
    """Return every block as a panel in its source's colour."""
    return Group(*(_panel(part, everything=everything) for part in view.parts))


def _panel(part: Part, *, everything: bool) -> Panel:
    lines = visible(part.content).split("\n")
    hidden = 0 if everything else max(0, len(lines) - PREVIEW_LINES)
    body = Text("\n".join(lines if everything else lines[:PREVIEW_LINES]))
    if hidden:
        body.append(f"\n… {hidden} more lines", style="dim")
    style = part.family.style
    title = Text.assemble(
        (f"{part.position} ", "dim"), (visible(part.role), "bold"), (f"  {visible(part.source)}", style)
    )
    subtitle = Text.assemble((f"{part.tokens} tokens", "dim"), overflow="ellipsis")
    reason = visible(part.reason) if part.reason and part.reason != part.source else ""
    if len(reason) > LONGEST_BORDER_REASON:
        body.append(f"\n↳ {reason}", style="italic dim")
    elif reason:
        subtitle.append(f"  ·  {reason}", style="italic dim")
    return Panel(
        body,
        title=title,
        subtitle=subtitle,
        title_align="left",
        subtitle_align="right",
        border_style=style,
        box=ROUNDED,
        padding=(0, 1),
    )


def token_bar(view: Overview) -> RenderableType:
    """Return a bar of all tokens by source, with a legend."""
    used = sum(share.tokens for share in view.shares) or 1
    bar = Text()
    room = min(BAR_WIDTH, max(console().width - 2, 1))
    for share, width in zip(view.shares, _widths([share.tokens for share in view.shares], room), strict=True):
        bar.append("█" * width, style=share.family.style)
    legend = Table.grid(padding=(0, 2))
    for share in sorted(view.shares, key=lambda each: -each.tokens):
        legend.add_row(
            Text.assemble(("■ ", share.family.style), share.family.label),
            Text(f"{share.tokens}", justify="right"),
            Text(f"{share.tokens / used:.0%}", style="dim", justify="right"),
            Text(_blocks(share), style="dim"),
        )
    total = Text.assemble((f"{view.total_tokens} tokens", "bold"))
    if view.budget_tokens is not None:
        free = max(view.budget_tokens - view.total_tokens, 0)
        total.append(f" of {view.budget_tokens}, {free} free", style="dim")
    if view.counting_note:
        total.append(f"\n{view.counting_note}", style="yellow")
    return Group(total, bar, Padding(legend, (0, 0, 0, 2)))


def _blocks(share: Share) -> str:
    return counted(share.blocks, "block")


def _widths(counts: Sequence[int], width: int) -> list[int]:
    total = sum(counts)
    if not total:
        return [0 for _ in counts]
    return [max(1, round(count * width / total)) if count else 0 for count in counts]


def plan_table(view: Overview) -> RenderableType:
    """Return one row per block: role, tokens, source, reason, start of the text, as far as the width allows."""
    room = console().width
    columns = [">#", "role", ">tokens", "source"] + ["why"] * (room >= NARROW) + ["text"] * (room >= WIDE)
    rows = (
        (
            str(part.position),
            part.role,
            str(part.tokens),
            Text(visible(part.source), style=part.family.style),
            *([part.reason] if room >= NARROW else []),
            *([_short(" ".join(part.content.split()), 60)] if room >= WIDE else []),
        )
        for part in view.parts
    )
    return table(*columns, rows=rows)


def plan_tree(view: Overview) -> RenderableType:
    """Return a tree of the blocks, grouped by source."""
    root = Tree(Text(f"prompt, {view.total_tokens} tokens", style="bold"))
    for share in view.shares:
        branch = root.add(Text.assemble((share.family.label, share.family.style), (f"  {share.tokens} tokens", "dim")))
        for part in view.parts:
            if part.family is share.family:
                text = Text.assemble(
                    (f"{part.position} ", "dim"), (visible(part.role), "bold"), f" {visible(part.source)}"
                )
                text.append(f"  {part.tokens}", style="dim")
                branch.add(text)
    return root


def left_out_table(view: Overview) -> RenderableType | None:
    """Return a table of what was left out and why; None if nothing was."""
    if not view.left_out:
        return None
    rows = ((row.what, "" if row.tokens is None else str(row.tokens), row.reason) for row in view.left_out)
    return table("what", ">tokens", "why", rows=rows, title="Left out")


def costs_table(source_map: SourceMap) -> RenderableType:
    """Return the tokens of each source, the most expensive first; they add up to the prompt's."""
    counts: dict[TextSource | None, int] = {**source_map.tokens_by_source()}
    own = sum(cost.tokens for cost in source_map.costs if cost.source is None)
    if own:
        counts[None] = own
    rows = [(str(tokens), source_label(source)) for source, tokens in counts.items()]
    return table(">tokens", "source", rows=[*rows, (str(sum(counts.values())), "all")])


def places_view(places: Sequence[Place], source_map: SourceMap) -> RenderableType:
    """Return where words of the prompt come from: file, field, characters, macros and scripts."""
    rows = [
        (
            str(place.message),
            _short(" ".join(words.text.split()), 40),
            source_label(words.source),
            f"{words.start} to {words.end}" if words.source is not None else "",
            words.how,
        )
        for place in places
        for words in words_of(source_map.messages[place.message].text, place.spans, place.start, place.end)
    ]
    return table(">message", "words", "source", "characters", "how", rows=rows)


def left_out_sources(uses: Sequence[Use]) -> RenderableType:
    """Return where words are that are not in the prompt, and why they were left out."""
    rows = [
        (source_label(use.source), use.reason or ("only parts of it are sent" if use.places else "it is not sent"))
        for use in uses
    ]
    return table("found in", "why it is left out", rows=rows)


def lore_table(rows: Sequence[LoreRow]) -> RenderableType:
    """Return a table of why each entry is in or out; with its book if there are several."""
    wide = console().width >= NARROW
    with_books = wide and len({row.book for row in rows}) > 1
    cells = (
        (
            Text("● in", style="green") if row.active else Text("○ out", style="dim"),
            Text(visible(row.title), style="bold" if row.active else ""),
            *([Text(visible(row.id), style="dim")] if wide else []),
            *([Text(visible(row.book), style="dim")] if with_books else []),
            row.reason,
        )
        for row in rows
    )
    return table("lore", "entry", *["id"] * wide, *["book"] * with_books, "why", rows=cells)


def trace_table(trace: Trace) -> RenderableType:
    """Return a table of the steps of a build, with times and counters."""
    rows = (
        (step.name, f"{step.duration_ms:.2f}", ", ".join(f"{key}={value}" for key, value in step.stats.items()))
        for step in trace.steps
    )
    made = table("step", ">ms", "stats", rows=rows, title=f"{trace.duration_ms:.1f} ms")
    made.box = SIMPLE_HEAD
    return made


def warnings_view(warnings: Sequence[str]) -> RenderableType | None:
    """Return the warnings of a build; None if there are none."""
    if not warnings:
        return None
    return Group(*(Text.assemble(("! ", "yellow"), visible(each)) for each in warnings))


def hints_view(hints: Sequence[str]) -> RenderableType | None:
    """Return suggestions; None if there are none."""
    if not hints:
        return None
    return Group(*(Text.assemble(("→ ", "cyan"), visible(each)) for each in hints))


def cache_table(report: CacheReport) -> RenderableType:
    """Return one row per turn, with a bar of cached and other tokens."""
    longest = max(turn.tokens for turn in report.turns)
    wide = console().width >= WIDE
    rows = (
        (
            str(turn.number),
            f"{turn.tokens:,}",
            f"{turn.cached_tokens:,}",
            f"{turn.share:.0%}",
            f"{turn.cost:,.0f}",
            _turn_bar(turn, longest),
            *([_why_broken(turn)] if wide else []),
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


def _turn_bar(turn: CacheTurn, longest: int) -> Text:
    width = round(TURN_BAR_WIDTH * turn.tokens / longest) if longest else 0
    cached = round(width * turn.share)
    return Text.assemble(("█" * cached, "green"), ("░" * (width - cached), "yellow"))


def _why_broken(turn: CacheTurn) -> Text:
    if turn.broken is None:
        return Text("" if turn.number > 1 else "first request", style="dim")
    return Text(visible(turn.broken.reason), style="" if turn.broken.avoidable else "dim")


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
