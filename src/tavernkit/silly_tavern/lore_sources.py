"""Which lore entries a text before or after the character is made of, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from tavernkit.silly_tavern.world_info.explanation import Explanation
from tavernkit.silly_tavern.world_info.placement import PlacedEntry
from tavernkit.silly_tavern.world_info.result import WorldInfoResult
from tavernkit.values import FrozenJson, is_mapping

LoreSources: TypeAlias = Mapping[str, Sequence[FrozenJson]]
"""Lore entries by the identifier of the prompt they are in."""


def lore_sources(result: WorldInfoResult | None) -> LoreSources:
    """What the texts before and after the character are made of."""
    if result is None:
        return {}
    explained = {one.entry.identity: one for one in result.explanations.touched() if one.active}

    def entries(placed: tuple[PlacedEntry, ...]) -> list[FrozenJson]:
        found: list[FrozenJson] = []
        for one in placed:
            why = explained.get(one.entry.identity)
            found.append(
                {
                    "id": one.entry.identity,
                    "name": one.entry.comment,
                    "cause": _cause(why) if why is not None else "",
                    "reason": why.text if why is not None else "",
                }
            )
        return found

    return {"worldInfoBefore": entries(result.placement.before), "worldInfoAfter": entries(result.placement.after)}


def lore_reason(entries: Sequence[object]) -> str:
    """The entries and their causes in one line."""
    listed = (each for each in entries if is_mapping(each))
    return ", ".join(f"{each.get('name') or each.get('id')} ({each.get('cause')})" for each in listed)


def _cause(why: Explanation) -> str:
    return f"key {why.match.key!r}" if why.match is not None else str(why.reason)
