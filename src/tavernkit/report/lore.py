"""Lore as one table, whichever engine scanned it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import islice

from tavernkit.values import JsonObject

MAX_UNTOUCHED = 2000
"""Entries listed that no text touched: the page of a very large book stays one that a browser can show."""


@dataclass(frozen=True, slots=True)
class LoreRow:
    """One entry: whether it is in the prompt, and why or why not."""

    id: str
    title: str
    book: str
    active: bool
    reason: str
    keys: Sequence[str] = ()
    content: str = ""

    def to_dict(self) -> JsonObject:
        """All fields, ready for :mod:`json`."""
        return {**asdict(self), "keys": list(self.keys)}


def lore_rows(result: object, *, limit: int = MAX_UNTOUCHED) -> list[LoreRow]:
    """List the entries of a scan's result, those in the prompt first; an unknown result gives an empty list."""
    from tavernkit.risu_ai.lorebook.result import LorebookResult
    from tavernkit.silly_tavern.world_info.result import WorldInfoResult

    if isinstance(result, WorldInfoResult):
        rows = _world_info(result, limit)
    elif isinstance(result, LorebookResult):
        rows = _lorebook(result, limit)
    else:
        return []
    return sorted(rows, key=lambda row: not row.active)


def _world_info(result: object, limit: int) -> list[LoreRow]:
    from tavernkit.silly_tavern.world_info.result import WorldInfoResult

    assert isinstance(result, WorldInfoResult)
    contents = {one.entry.identity: one.content for one in result.activated}
    touched = {one.entry.identity: one for one in result.explanations.touched()}
    rest = (one for one in result.explanations if one.entry.identity not in touched)
    return [
        LoreRow(
            id=one.entry.identity,
            title=one.entry.comment or ", ".join(one.entry.keys[:3]) or one.entry.identity,
            book=one.entry.world,
            active=one.active,
            reason=one.text,
            keys=tuple(one.entry.keys),
            content=contents.get(one.entry.identity, one.entry.content),
        )
        for one in (*touched.values(), *islice(rest, limit))
    ]


def _lorebook(result: object, limit: int) -> list[LoreRow]:
    from tavernkit.risu_ai.lorebook.result import LorebookResult

    assert isinstance(result, LorebookResult)
    texts = {each.index: each.text for each in result.actives}
    explained = result.explanations
    active = [each for each in explained if each.active]
    out = [each for each in explained if not each.active]
    return [
        LoreRow(
            id=str(each.index),
            title=each.source,
            book="",
            active=each.active,
            reason=each.reason,
            content=texts.get(each.index, ""),
        )
        for each in (*active, *out[:limit])
    ]
