"""Entries that keep each other out: inclusion groups and the token budget."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tavernkit._text.js_values import to_number, trim
from tavernkit.cards._validation_rules import Severity
from tavernkit.lint._finding import Finding

if TYPE_CHECKING:
    from tavernkit.silly_tavern._world_info import Entry


def group_findings(entries: Sequence[tuple[str, Entry]]) -> Iterator[Finding]:
    """Find entries of an inclusion group that always lose to a constant entry."""
    groups: dict[str, list[tuple[str, Entry]]] = {}
    for place, entry in entries:
        if not entry.disabled:
            for name in filter(None, map(trim, entry.group.split(","))):
                groups.setdefault(name, []).append((place, entry))
    for name, members in groups.items():
        champions = [entry for _, entry in members if entry.group_override and entry.constant and _certain(entry)]
        if not champions:
            continue
        champion = max(champions, key=lambda entry: to_number(entry.order))
        for place, entry in members:
            if entry is not champion:
                yield Finding(
                    where=place,
                    entry=entry.comment,
                    message=f"is never chosen in group {name!r}: {_name(champion)} is always active and has priority",
                    severity=Severity.WARNING,
                    code="SHADOWED",
                )


def budget_findings(entries: Sequence[tuple[str, Entry]], where: str, budget: int) -> Iterator[Finding]:
    """Find entries that never fit into the token budget."""
    from tavernkit.budget import count_tokens

    used = 0
    for place, entry in entries:
        if entry.disabled or entry.ignore_budget:
            continue
        tokens = count_tokens(entry.content)
        if tokens > budget:
            yield Finding(
                where=place,
                entry=entry.comment,
                message=f"needs {tokens} tokens, more than the whole lore budget of {budget}",
                severity=Severity.WARNING,
                code="OVER_BUDGET",
            )
        if entry.constant:
            used += tokens
    if used >= budget:
        yield Finding(
            where=where or "/",
            message=f"constant entries use {used} tokens of a budget of {budget}: no other entry fits",
            severity=Severity.WARNING,
            code="BUDGET_STARVATION",
        )


def _certain(entry: Entry) -> bool:
    return not entry.use_probability or to_number(entry.probability) >= 100


def _name(entry: Entry) -> str:
    return f"{entry.raw.get('uid', '?')} {entry.comment!r}" if entry.comment else str(entry.raw.get("uid", "?"))
