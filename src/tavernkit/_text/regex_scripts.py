"""What regex scripts of both platforms share: limits for one build, and a cache of results.

Only results that do not depend on the context are cached.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TypeAlias

from tavernkit._dataclass import dataclass
from tavernkit._text.js_regex import JSMatch
from tavernkit._text.js_regex.limits import RegexTime
from tavernkit._text.traced import plain
from tavernkit._values import LRUCache
from tavernkit.errors import Warn

_OVERHEAD = 256
"""The size of an entry without its texts."""

Edit: TypeAlias = tuple[int, Sequence[JSMatch]]
"""A script that found something, by its index, and its matches."""

RunScript: TypeAlias = Callable[[int, str], tuple[str, bool, Sequence[JSMatch]]]
"""Runs the script at an index on a text; also returns whether the result depends on the context, and the matches."""
MAX_SCRIPT_WORK = 6_000_000
"""Runs of regex scripts over texts in one build (500 scripts, 5,000 messages: 2,500,000); a long text counts one more
for every 1024 characters."""

MAX_SLOW_SCRIPT = 5
"""How often one script may exceed its time in a build before it is skipped."""

MAX_SLOW_SCRIPTS = 50
"""The same for all scripts of a build."""


class ScriptBudget:
    """Counts over all texts of a build: a script that is repeatedly slow is skipped, and eventually all are.

    Problems with a script are reported once, not for every text.
    """

    __slots__ = ("_left", "_reported", "_slow", "_slow_in_all", "_time", "incidents")

    incidents: int
    """How often each script was stopped."""

    def __init__(self) -> None:
        self._left = MAX_SCRIPT_WORK
        self._slow: dict[Hashable, int] = {}
        self._slow_in_all = 0
        self._reported: set[str] = set()
        self._time = RegexTime()
        self.incidents = 0

    @property
    def spent(self) -> bool:
        """True if no more scripts run."""
        return self._left < 0

    def may_run(self, script: Hashable, text: str, warn: Warn) -> bool:
        """Count a run of a script on a text; return False if it is not allowed."""
        if self._left < 0 or (self._slow and self._slow.get(script, 0) >= MAX_SLOW_SCRIPT):
            self.incidents += 1
            return False
        self._left -= 1 + (len(text) >> 10)
        if self._left < 0 or not self._time.is_left():
            self.incidents += 1
            self._stop(warn)
        return self._left >= 0

    def end_text(self) -> None:
        """Do not count the time until the next script runs."""
        self._time.pause()

    def spend(self, work: int, warn: Warn) -> None:
        """Count the matches of a run: many matches take much longer than a long text."""
        if self._left < 0:
            return
        self._left -= work
        if self._left < 0:
            self.incidents += 1
            self._stop(warn)

    def slow(self, script: Hashable, name: str, warn: Warn) -> None:
        """Record that a script timed out on a text."""
        self.incidents += 1
        self._slow[script] = self._slow.get(script, 0) + 1
        self._slow_in_all += 1
        if self._slow[script] == MAX_SLOW_SCRIPT:
            warn(f"regex script {name!r:.80} keeps taking too long: it no longer runs")
        if self._slow_in_all == MAX_SLOW_SCRIPTS:
            self._stop(warn)

    def warn_once(self, message: str, warn: Warn) -> None:
        """Warn about a script, unless the same warning was already given."""
        self.incidents += 1
        if message not in self._reported:
            self._reported.add(message)
            warn(message)

    def _stop(self, warn: Warn) -> None:
        self._left = -1
        warn("the regex scripts take too long: the rest of them do not run")


@dataclass(frozen=True, slots=True)
class Stretch:
    """The result of several scripts in a row, and the index of the script after them."""

    text: str
    end: int
    finding: tuple[Edit, ...]
    """What found something; the other scripts leave every copy of the text as it is."""


class ScriptStretches:
    """Caches texts for any number of lists of scripts. Thread-safe.

    A script whose result depends on the context ends a run of cached scripts only for texts where it does.
    """

    def __init__(self, max_characters: int) -> None:
        self._known: LRUCache[tuple[Hashable, int, str], Stretch] = LRUCache(
            max_characters, lambda key, stretch: len(key[2]) + _size_of(stretch)
        )

    def known(self, scripts: Hashable, count: int, text: str) -> Stretch | None:
        """Return the result of all scripts for a text, if it is cached.

        Args:
            scripts: Identifies their list.
            count: How many there are.
            text: The text.
        """
        stretch = self._known.get((scripts, 0, text))
        return stretch if stretch is not None and stretch.end == count else None

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
                for each, _ in stretch.finding:
                    text = run_script(each, text)[0]
                place = stretch.end
            if place < count:
                text = run_script(place, text)[0]
                place += 1
        budget.end_text()
        return text


def _size_of(stretch: Stretch) -> int:
    # Matches keep the text that they were found in.
    return len(stretch.text) * (1 + len(stretch.finding)) + _OVERHEAD * (
        1 + sum(len(each) for _, each in stretch.finding)
    )


def _run_stretch(start: int, count: int, text: str, run_script: RunScript) -> tuple[Stretch, str | None]:
    """Run scripts up to and including the first one whose result depends on the context."""
    finding: list[Edit] = []
    for place in range(start, count):
        made, varies, matches = run_script(place, text)
        if varies:
            return Stretch(text, place, tuple(finding)), made
        # Python has one object for each text of one character, also for a new one.
        if made is not text or len(text) < 2:
            finding.append((place, matches))
        text = made
    return Stretch(text, count, tuple(finding)), None
