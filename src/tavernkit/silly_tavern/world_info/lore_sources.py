"""Which lore entries a text is made of, and why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from itertools import groupby

from tavernkit.silly_tavern.world_info.explanation import Explanation
from tavernkit.silly_tavern.world_info.placement import ExampleEntry, PlacedEntry
from tavernkit.silly_tavern.world_info.result import WorldInfoResult
from tavernkit.values import FrozenJson, FrozenObject, is_mapping


class LoreSources:
    """The provenance of a scan's entries, looked up when a text needs it."""

    def __init__(self, result: WorldInfoResult | None = None) -> None:
        self._result = result

    def of(self, placed: Iterable[PlacedEntry | ExampleEntry]) -> list[FrozenJson]:
        """The entries of a text: which they are, what called them, the whole reason."""
        return [self._source(one) for one in placed]

    def _source(self, one: PlacedEntry | ExampleEntry) -> FrozenObject:
        entry, why = one.entry, self._explained.get(one.entry.identity)
        return {
            "id": entry.identity,
            "name": entry.title,
            "book": entry.world,
            "cause": _cause(why) if why is not None else "",
            "reason": why.text if why is not None else "",
        }

    @cached_property
    def _explained(self) -> Mapping[str, Explanation]:
        if self._result is None:
            return {}
        return {one.entry.identity: one for one in self._result.explanations.touched() if one.active}


def lore_reason(entries: Iterable[object]) -> str:
    """The entries with their causes and books in one line; a book is named once for its neighbouring entries."""
    listed = [each for each in entries if is_mapping(each)]
    parts: list[str] = []
    for book, neighbours in groupby(listed, key=lambda each: each["book"]):
        names = ", ".join(f"{each['name']} ({each['cause']})" for each in neighbours)
        parts.append(f"{names} in {book}" if book else names)
    return "; ".join(parts)


def _cause(why: Explanation) -> str:
    return f"key {why.match.key!r}" if why.match is not None else str(why.reason)
