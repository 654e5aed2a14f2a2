"""What a scan of lorebooks gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from tavernkit.values import FrozenJson

Operation = Literal["append", "prepend", "replace"]


@dataclass(frozen=True, slots=True)
class LoreInjection:
    """Lore that goes into another text: another entry's (``lore``) or a prompt card's."""

    operation: Operation = "append"
    location: str = ""
    param: str = ""
    lore: bool = False


@dataclass(frozen=True, slots=True)
class ActiveLore:
    """One entry that goes into the prompt: its text (macros not expanded) and its place.

    ``order`` and ``priority`` are as stored, which may be a text; ``index`` is its place among all entries.
    """

    index: int
    source: str
    text: str
    pos: str = ""
    depth: float = 0
    role: str = "system"
    order: FrozenJson = 0
    priority: FrozenJson = 0
    tokens: int = 0
    inject: LoreInjection | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class KeyHit:
    """A key that was found: where, and the key as it is written."""

    source: str
    key: str


@dataclass(frozen=True, slots=True)
class LoreExplanation:
    """Why an entry is in or out."""

    index: int
    source: str
    active: bool
    reason: str


@dataclass(frozen=True, slots=True)
class LorebookResult:
    """The active entries in the order of the prompt, every key hit, and the markers to store as chat variables."""

    actives: Sequence[ActiveLore] = ()
    hits: Sequence[KeyHit] = ()
    markers: Mapping[str, str] = field(default_factory=dict[str, str])
    total_tokens: int = 0
    budget: int = 0
    names: Sequence[str] = ()
    reasons: Mapping[int, str] = field(default_factory=dict[int, str])
    no_key_reason: str = "none of its keys was found"

    @property
    def activated_entries(self) -> Sequence[ActiveLore]:
        """The active entries."""
        return self.actives

    def explain(self, entry: int | str) -> LoreExplanation:
        """Say why an entry (its index, or its name) is in or out."""
        index = entry if isinstance(entry, int) else self._index_of(entry)
        active = next((each for each in self.actives if each.index == index), None)
        reason = active.reason if active is not None else self.reasons.get(index, self.no_key_reason)
        return LoreExplanation(index, self.names[index], active is not None, reason)

    @property
    def explanations(self) -> list[LoreExplanation]:
        """One for every entry that was considered."""
        by_index = {each.index: each.reason for each in self.actives}
        return [
            LoreExplanation(i, name, i in by_index, by_index.get(i) or self.reasons.get(i, self.no_key_reason))
            for i, name in enumerate(self.names)
        ]

    def table(self) -> str:
        """The explanations for people."""
        rows = [("", "entry", "why")]
        rows += [("in" if each.active else "out", each.source, each.reason) for each in self.explanations]
        widths = [max(len(row[column]) for row in rows) for column in range(2)]
        return "\n".join(f"{a.ljust(widths[0])}  {b.ljust(widths[1])}  {c}".rstrip() for a, b, c in rows)

    def _index_of(self, name: str) -> int:
        if name not in self.names:
            raise KeyError(f"no entry is called {name!r}")
        return list(self.names).index(name)
