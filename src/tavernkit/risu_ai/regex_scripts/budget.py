"""What the regex scripts of one build may take."""

from __future__ import annotations

from tavernkit.errors import Warn
from tavernkit.risu_ai.limits import MAX_SCRIPT_WORK, MAX_SLOW_SCRIPT, MAX_SLOW_SCRIPTS
from tavernkit.risu_ai.regex_scripts.script import RegexScript


class ScriptBudget:
    """Counts over all texts of a build: a script that is slow again and again is left out, and in the end all are."""

    __slots__ = ("_left", "_slow", "_slow_in_all")

    def __init__(self) -> None:
        self._left = MAX_SCRIPT_WORK
        self._slow: dict[RegexScript, int] = {}
        self._slow_in_all = 0

    @property
    def spent(self) -> bool:
        """Whether no more scripts run."""
        return self._left < 0

    def may_run(self, script: RegexScript, text: str, warn: Warn) -> bool:
        """Count a run of a script over a text, and tell whether it may take place."""
        if self._left < 0 or (self._slow and self._slow.get(script, 0) >= MAX_SLOW_SCRIPT):
            return False
        self._left -= 1 + (len(text) >> 10)
        if self._left < 0:
            self._stop(warn)
        return self._left >= 0

    def slow(self, script: RegexScript, warn: Warn) -> None:
        """Note that a script was given up on a text."""
        self._slow[script] = self._slow.get(script, 0) + 1
        self._slow_in_all += 1
        if self._slow[script] == MAX_SLOW_SCRIPT:
            name = script.comment or script.pattern
            warn(f"regex script {name!r:.80} takes too long again and again: it is left out from here on")
        if self._slow_in_all == MAX_SLOW_SCRIPTS:
            self._stop(warn)

    def _stop(self, warn: Warn) -> None:
        self._left = -1
        warn("the regex scripts take too long: no more of them run from here on")
