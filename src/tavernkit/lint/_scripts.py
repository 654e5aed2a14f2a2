"""Regex scripts and regular expressions in keys: whether they are valid, and how slow they can get."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping

from tavernkit._dataclass import dataclass
from tavernkit._text.js_regex import JSRegex, JSRegexSyntaxError, parse_literal
from tavernkit._text.js_regex.limits import DEFAULT_TIMEOUT
from tavernkit._values import is_mapping, is_sequence
from tavernkit.cards._requirements import Severity
from tavernkit.lint._finding import Finding
from tavernkit.lint._texts import has_time, lint_text

NOTICEABLE = DEFAULT_TIMEOUT
"""Seconds from which an expression is reported: builds stop calls there."""


def lint_regex(source: str, flags: str, where: str) -> Iterator[Finding]:
    """Check that an expression is valid and measure how slow it can get."""
    try:
        regex = JSRegex.compile(source, flags)
    except JSRegexSyntaxError as error:
        yield Finding(
            where=where, message=f"is not a regular expression: {error}", severity=Severity.ERROR, code="BAD_REGEX"
        )
        return
    if not has_time():
        return
    worst = measure_worst_case(regex)
    if not worst.gave_up and worst.seconds < NOTICEABLE:
        return
    short = worst.gave_up and worst.length < 100
    yield Finding(
        where=where,
        message=str(worst),
        severity=Severity.ERROR if short else Severity.WARNING if worst.gave_up else Severity.INFO,
        code="SLOW_REGEX",
        hint=f"builds stop such a search after {DEFAULT_TIMEOUT * 1000:.0f} ms and treat it as no match",
    )


def lint_regex_script(script: object, where: str) -> Iterator[Finding]:
    """Check one script of SillyTavern or RisuAI.

    Args:
        script: The JSON of the script.
        where: The JSON pointer to it, for findings.
    """
    if not is_mapping(script):
        yield Finding(where=where, message="is not an object", severity=Severity.ERROR, code="NOT_A_SCRIPT")
    elif "findRegex" in script:
        yield from _silly_tavern(script, where)
    else:
        yield from _risu_ai(script, where)


def lint_regex_scripts(scripts: object, where: str) -> Iterator[Finding]:
    """Check a list of scripts."""
    for index, script in enumerate(scripts if is_sequence(scripts) else ()):
        yield from lint_regex_script(script, f"{where}/{index}")


def _silly_tavern(script: Mapping[str, object], where: str) -> Iterator[Finding]:
    from tavernkit.silly_tavern._scripts.regex_scripts import RegexScript

    read = RegexScript.from_json(script)
    if not read.find_regex:
        yield _warning(where, "has no findRegex: it never does anything", "EMPTY_SCRIPT")
        return
    if not read.placement:
        yield _warning(where, "has no placement: it is never applied", "NEVER_RUNS")
    if read.min_depth is not None and read.max_depth is not None and read.min_depth > read.max_depth:
        yield _warning(where, "has a minDepth above its maxDepth: it is never applied", "NEVER_RUNS")
    if not read.macro_mode:
        literal = parse_literal(read.find_regex)
        source, flags = literal if literal is not None else (read.find_regex, "")
        yield from lint_regex(source, flags, f"{where}/findRegex")
    yield from lint_text(read.replace_string.replace("{{match}}", ""), f"{where}/replaceString", "silly_tavern")


def _risu_ai(script: Mapping[str, object], where: str) -> Iterator[Finding]:
    from tavernkit.risu_ai._regex_scripts import RegexScript

    read = RegexScript.from_json(script)
    if not read.pattern:
        yield _warning(where, "has no pattern: it never does anything", "EMPTY_SCRIPT")
        return
    if "{{" not in read.pattern:
        flags = "".join(dict.fromkeys(each for each in read.compile().flags if each in "dgimsuvy")) or "g"
        yield from lint_regex(read.pattern, flags, f"{where}/in")
    yield from lint_text(read.out, f"{where}/out", "risu_ai")


def _warning(where: str, message: str, code: str) -> Finding:
    return Finding(where=where, message=message, severity=Severity.WARNING, code=code)


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
