"""What scripts make of a text in every context, which need not be made again."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from tavernkit.risu_ai.limits import CACHED_SCRIPT_CHARACTERS
from tavernkit.risu_ai.regex_scripts.results import ScriptResult
from tavernkit.risu_ai.weighed_cache import WeighedCache

_OVERHEAD = 256
"""What an entry weighs besides its texts."""


@dataclass(frozen=True, slots=True)
class FixedResult:
    """What all scripts of a list make of a text: what they saw of it, what tells them from others, what they gave."""

    expanded: str
    scripts_key: Hashable
    result: ScriptResult


@dataclass(frozen=True, slots=True)
class FixedStretch:
    """What some scripts in a row make of a text, and the place of the script behind them."""

    text: str
    end: int


class FixedTexts:
    """Remembers texts for all lists of scripts together. ``scripts`` is a list as it runs in a mode.

    A script whose result depends on the context ends a stretch only in the texts that it changes. ``version`` is that
    of the CBS functions, which applications may add to.
    """

    def __init__(self) -> None:
        self._results: WeighedCache[tuple[Hashable, int, str], FixedResult] = WeighedCache(
            CACHED_SCRIPT_CHARACTERS // 2,
            lambda key, known: len(key[2]) + len(known.expanded) + len(known.result.text) + _OVERHEAD,
        )
        self._stretches: WeighedCache[tuple[Hashable, int, int, str], FixedStretch] = WeighedCache(
            CACHED_SCRIPT_CHARACTERS // 2, lambda key, stretch: len(key[3]) + len(stretch.text) + _OVERHEAD
        )

    def result(self, scripts: Hashable, version: int, text: str) -> FixedResult | None:
        """What all scripts make of a text, if that is always the same."""
        return self._results.get((scripts, version, text))

    def keep_result(self, scripts: Hashable, version: int, text: str, result: FixedResult) -> None:
        """Remember what all scripts make of a text."""
        self._results.put((scripts, version, text), result)

    def stretch(self, scripts: Hashable, version: int, start: int, text: str) -> FixedStretch | None:
        """What the scripts from a place on make of a text, as far as that is always the same."""
        return self._stretches.get((scripts, version, start, text))

    def keep_stretch(self, scripts: Hashable, version: int, start: int, text: str, stretch: FixedStretch) -> None:
        """Remember what the scripts from a place on make of a text."""
        self._stretches.put((scripts, version, start, text), stretch)
