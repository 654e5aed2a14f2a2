"""Entries prepared for scanning: entries that only a key can activate wait for that key."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tavernkit._dataclass import dataclass
from tavernkit.risu_ai._lorebook.entry import CHILD, Decorator, LorebookEntry, parse_content, split_keys
from tavernkit.risu_ai._lorebook.keys import LiteralKeys

QUIET_DECORATORS = frozenset(
    {
        "", "end", "depth", "reverse_depth", "role", "dont_activate", "activate_only_after", "activate_only_every",
        "is_greeting", "ignore_on_max_context", "priority", "inject_lore", "inject_at", "inject_replace",
        "inject_prepend", "unrecursive", "recursive", "no_recursive_search",
    }
)  # fmt: skip
"""Decorators that change nothing, not even the log of hits, while an entry's keys are not found."""


@dataclass(frozen=True, slots=True)
class CompiledLore:
    """Entries with their keys in one automaton."""

    entries: Sequence[LorebookEntry]
    always_considered: frozenset[int]
    literals: LiteralKeys
    by_partial_key: Mapping[str, Sequence[int]]
    by_word: Mapping[str, Sequence[int]]
    by_id: Mapping[str | None, Sequence[int]]

    @classmethod
    def of(cls, entries: Sequence[LorebookEntry]) -> CompiledLore:
        """Compile entries."""
        always: set[int] = set()
        waiting: list[tuple[int, Sequence[str]]] = []
        by_id: dict[str | None, list[int]] = {}
        keys: list[str] = []
        for index, entry in enumerate(entries):
            by_id.setdefault(entry.id, []).append(index)
            found = split_keys(entry.key)
            decorators = parse_content(entry.content).decorators
            keys += _all_keys(entry, found, decorators)  # a child looks for those of its parent, reachable or not
            if not entry.reachable:
                continue
            if _waits_for_key(entry, decorators):
                waiting.append((index, found))
            else:
                always.add(index)
        literals = LiteralKeys(keys)
        partial: dict[str, list[int]] = {}
        words: dict[str, list[int]] = {}
        for index, found in waiting:
            for key in found:
                partial.setdefault(literals.squeezed[key], []).append(index)
                words.setdefault(literals.lowered[key], []).append(index)
        return cls(tuple(entries), frozenset(always), literals, partial, words, by_id)

    def waiting_for(self, text: str, full_word: bool, known: set[str]) -> Iterable[int]:
        """Return entries with a newly found primary key in a text; the found keys are added to the known ones."""
        hits = self.literals.word_hits(text) if full_word else self.literals.partial_hits(text)
        by_key = self.by_word if full_word else self.by_partial_key
        new = hits - known
        known |= new
        for key in new:
            yield from by_key.get(key, ())


def _all_keys(entry: LorebookEntry, primary: Sequence[str], decorators: Sequence[Decorator]) -> list[str]:
    found = [*primary, *split_keys(entry.secondary_key)] if entry.secondary_key else [*primary]
    for decorator in decorators:
        if decorator.name in ("additional_keys", "exclude_keys", "exclude_keys_all"):
            found += decorator.arguments
    return found


def _waits_for_key(entry: LorebookEntry, decorators: Sequence[Decorator]) -> bool:
    if entry.always_active or entry.use_regex or entry.mode == CHILD:
        return False
    return not decorators or all(decorator.name in QUIET_DECORATORS for decorator in decorators)
