"""What regex scripts make of a text whatever the context, which need not be made again every turn."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TypeAlias

from tavernkit._dataclass import dataclass
from tavernkit._text.script_budget import ScriptBudget
from tavernkit._values import LRUCache

_OVERHEAD = 256
"""What an entry weighs besides its texts."""

RunScript: TypeAlias = Callable[[int, str], tuple[str, bool]]
"""Runs the script at a place over a text; tells besides whether another context may make something else of it."""


@dataclass(frozen=True, slots=True)
class _Stretch:
    """What some scripts in a row make of a text, and the place of the script behind them."""

    text: str
    end: int


class ScriptStretches:
    """Remembers texts for any number of lists of scripts. Thread-safe.

    A script whose result depends on the context ends a stretch of scripts only in the texts where it does: the others
    of its list rest.
    """

    def __init__(self, max_characters: int) -> None:
        self._known: LRUCache[tuple[Hashable, int, str], _Stretch] = LRUCache(
            max_characters, lambda key, stretch: len(key[2]) + len(stretch.text) + _OVERHEAD
        )

    def run(self, scripts: Hashable, count: int, text: str, run_script: RunScript, budget: ScriptBudget) -> str:
        """Run scripts one after another, but for those of which it is known what they make of the text.

        ``scripts`` tells their list from others; ``count`` is how many there are.
        """
        place = 0
        while place < count and not budget.spent:
            key = (scripts, place, text)
            stretch, made = self._known.get(key), None
            if stretch is None:
                stretch, made = _run_stretch(place, count, text, run_script)
                self._known.put(key, stretch)
            text, place = stretch.text, stretch.end
            if place < count:
                text = run_script(place, text)[0] if made is None else made
                place += 1
        return text


def _run_stretch(start: int, count: int, text: str, run_script: RunScript) -> tuple[_Stretch, str | None]:
    """Run scripts up to the first one whose result depends on the context; give what that one made, too."""
    for place in range(start, count):
        made, varies = run_script(place, text)
        if varies:
            return _Stretch(text, place), made
        text = made
    return _Stretch(text, count), None
