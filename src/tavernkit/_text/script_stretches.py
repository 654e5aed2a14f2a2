"""Caches results of regex scripts that do not depend on the context."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TypeAlias

from tavernkit._dataclass import dataclass
from tavernkit._text.script_budget import ScriptBudget
from tavernkit._text.traced import plain
from tavernkit._values import LRUCache

_OVERHEAD = 256
"""The size of an entry without its texts."""

RunScript: TypeAlias = Callable[[int, str], tuple[str, bool]]
"""Runs the script at an index on a text; also returns whether the result depends on the context."""


@dataclass(frozen=True, slots=True)
class _Stretch:
    """The result of several scripts in a row, and the index of the script after them."""

    text: str
    end: int
    finding: tuple[int, ...]
    """The indices of those that found something; the others leave every copy of the text as it is."""


class ScriptStretches:
    """Caches texts for any number of lists of scripts. Thread-safe.

    A script whose result depends on the context ends a run of cached scripts only for texts where it does.
    """

    def __init__(self, max_characters: int) -> None:
        self._known: LRUCache[tuple[Hashable, int, str], _Stretch] = LRUCache(
            max_characters, lambda key, stretch: len(key[2]) + len(stretch.text) + _OVERHEAD
        )

    def run(
        self,
        scripts: Hashable,
        count: int,
        text: str,
        run_script: RunScript,
        budget: ScriptBudget,
        *,
        keep_all: bool = True,
    ) -> str:
        """Run scripts in order, except those whose result for the text is cached.

        ``scripts`` identifies their list; ``count`` is how many there are. Without ``keep_all``, the caller keeps
        results that do not depend on the context for any of them.
        """
        place = 0
        while place < count and not budget.spent:
            key = (scripts, place, text)
            stretch, made = self._known.get(key), None
            if stretch is None:
                stretch, made = _run_stretch(place, count, text, run_script)
                if keep_all or place or made is not None:
                    self._known.put(key, stretch)
            text, place = stretch.text, stretch.end
            if place < count:
                text = run_script(place, text)[0] if made is None else made
                place += 1
        budget.end_text()
        return text

    def run_traced(self, scripts: Hashable, count: int, text: str, run_script: RunScript, budget: ScriptBudget) -> str:
        """Run scripts on a traced text in order, except those that are known to find nothing in its words.

        Cached results are not used: they come from other sources.

        Args:
            scripts: Identifies their list.
            count: How many there are.
            text: The traced text.
            run_script: Runs a script.
            budget: What all texts of a build share.
        """
        place = 0
        while place < count and not budget.spent:
            stretch = self._known.get((scripts, place, plain(text)))
            if stretch is not None:
                for each in stretch.finding:
                    text = run_script(each, text)[0]
                place = stretch.end
            if place < count:
                text = run_script(place, text)[0]
                place += 1
        budget.end_text()
        return text


def _run_stretch(start: int, count: int, text: str, run_script: RunScript) -> tuple[_Stretch, str | None]:
    """Run scripts up to and including the first one whose result depends on the context."""
    finding: list[int] = []
    for place in range(start, count):
        made, varies = run_script(place, text)
        if varies:
            return _Stretch(text, place, tuple(finding)), made
        # Python has one object for each text of one character, also for a new one.
        if made is not text or len(text) < 2:
            finding.append(place)
        text = made
    return _Stretch(text, count, tuple(finding)), None
