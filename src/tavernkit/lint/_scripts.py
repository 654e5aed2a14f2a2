"""Regex scripts and regular expressions in keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tavernkit._text.js_regex import JSRegex, JSRegexSyntaxError, parse_literal
from tavernkit._text.js_regex.limits import DEFAULT_TIMEOUT
from tavernkit._values import is_mapping, is_sequence
from tavernkit.cards._validation_rules import Severity
from tavernkit.lint._finding import Finding
from tavernkit.lint._texts import lint_text
from tavernkit.lint._time_limit import has_time
from tavernkit.lint._worst_case import measure_worst_case

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
