"""Limits on the regex scripts of one build, for both platforms."""

from __future__ import annotations

from collections.abc import Hashable

from tavernkit._text.regex_time import RegexTime
from tavernkit.errors import Warn

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

    def tell_once(self, message: str, warn: Warn) -> None:
        """Warn about a script, unless the same warning was already given."""
        self.incidents += 1
        if message not in self._reported:
            self._reported.add(message)
            warn(message)

    def _stop(self, warn: Warn) -> None:
        self._left = -1
        warn("the regex scripts take too long: the rest of them do not run")
