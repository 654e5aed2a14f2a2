"""Measures how slow a regular expression can get."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

from tavernkit._dataclass import dataclass
from tavernkit._text.js_regex import JSRegex

TIME_LIMIT = 0.25
"""Seconds after which an attempt is stopped."""

ALL_TIME_LIMIT = 1.0
"""Seconds after which no more texts are tried with one expression."""

LENGTHS = (30, 3000, 10000)
"""Lengths of the texts that are tried: exponential time shows at the first, quadratic time at the last."""

MAX_PUMPS = 8
"""Different repeated pieces that are tried."""

_ESCAPES = {"d": "0", "w": "a", "s": " ", "n": "\n", "t": "\t", "b": "", "B": "", "S": "a", "D": "a", "W": " "}
_LITERALS = re.compile(r"\\(.)|([^\\()\[\]{}*+?.|^$])", re.DOTALL)


@dataclass(frozen=True, slots=True)
class WorstCase:
    """The slowest attempt. ``gave_up`` is True if it exceeded the limit."""

    seconds: float
    """How long the slowest attempt took."""
    length: int
    """Characters of the text that it was tried with."""
    sample: str
    """The beginning of that text."""
    gave_up: bool

    def __str__(self) -> str:
        took = f"more than {TIME_LIMIT * 1000:.0f}" if self.gave_up else f"{self.seconds * 1000:.0f}"
        return f"takes {took} ms on {self.length} characters such as {self.sample!r}"


def measure_worst_case(regex: JSRegex) -> WorstCase:
    """Try texts that are slow for backtracking engines: long repetitions that match, then a mismatch."""
    worst = WorstCase(0.0, 0, "", gave_up=False)
    tried = 0.0
    for length in LENGTHS:
        for pump in _pumps(regex.source):
            if tried > ALL_TIME_LIMIT:
                return worst
            text = pump * (length // len(pump)) + "\x00"
            seconds, gave_up = _time(regex, text)
            tried += seconds
            if seconds > worst.seconds:
                worst = WorstCase(seconds, len(text), pump * (6 // len(pump) + 1) + "…", gave_up)
            if gave_up:
                return worst
    return worst


def _time(regex: JSRegex, text: str) -> tuple[float, bool]:
    """Return the faster of two attempts, so that starting the guard does not count."""
    best = float("inf")
    for _ in range(2):
        gave_up: list[str] = []
        started = time.perf_counter()
        regex.search(text, timeout=TIME_LIMIT, warn=gave_up.append)
        if gave_up:
            return TIME_LIMIT, True
        best = min(best, time.perf_counter() - started)
    return best, False


def _pumps(source: str) -> Iterator[str]:
    found: dict[str, None] = {}
    for escaped, plain in _LITERALS.findall(source):
        found.setdefault(_ESCAPES.get(escaped, escaped) or plain)
    words = re.findall(r"[A-Za-z]{2,}", source)
    tried = [*found, *words, "a", " ", "ab", "0"]
    yield from list(dict.fromkeys(each for each in tried if each))[:MAX_PUMPS]
