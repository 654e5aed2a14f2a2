"""What all scripts of a list make of a text in every context."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from tavernkit.risu_ai.limits import CACHED_SCRIPT_CHARACTERS
from tavernkit.risu_ai.regex_scripts.results import ScriptResult
from tavernkit.text.script_stretches import ScriptStretches
from tavernkit.values import LRUCache

_OVERHEAD = 256
"""What an entry weighs besides its texts."""


@dataclass(frozen=True, slots=True)
class FixedResult:
    """What the scripts saw of a text, what tells them from others, and what they gave."""

    expanded: str
    scripts_key: Hashable
    result: ScriptResult


class FixedTexts:
    """Remembers texts for all lists of scripts together. ``scripts`` is a list as it runs in a mode.

    ``version`` is that of the CBS functions, which applications may add to. ``stretches`` are for texts that not all
    scripts make the same of.
    """

    def __init__(self) -> None:
        self._results: LRUCache[tuple[Hashable, int, str], FixedResult] = LRUCache(
            CACHED_SCRIPT_CHARACTERS // 2,
            lambda key, known: len(key[2]) + len(known.expanded) + len(known.result.text) + _OVERHEAD,
        )
        self.stretches = ScriptStretches(CACHED_SCRIPT_CHARACTERS // 2)

    def get(self, scripts: Hashable, version: int, text: str) -> FixedResult | None:
        """What all scripts make of a text, if that is always the same."""
        return self._results.get((scripts, version, text))

    def put(self, scripts: Hashable, version: int, text: str, result: FixedResult) -> None:
        """Remember what all scripts make of a text."""
        self._results.put((scripts, version, text), result)
