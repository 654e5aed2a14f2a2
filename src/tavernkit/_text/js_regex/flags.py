"""The flags of a regular expression, and its literal form."""

from __future__ import annotations

import re

from tavernkit._text.js_regex.errors import JSRegexSyntaxError

FLAGS = "dgimsuvy"
"""The flags JavaScript knows."""

# Repeated groups are possessive: otherwise each repetition takes a hundred bytes of memory.
_LITERAL = re.compile(r"/((?:[^\\/\[]++|\\[\s\S]|\[(?:[^\\\]]++|\\[\s\S])*+\])++)/([A-Za-z]*)")


def check_flags(flags: str) -> str:
    """Return the flags in alphabetical order; unknown, repeated and contradicting ones are errors."""
    unknown = [flag for flag in flags if flag not in FLAGS]
    if unknown:
        raise JSRegexSyntaxError(f"Invalid flags: {unknown[0]!r} in {flags!r} is not one of {FLAGS}")
    if len(set(flags)) != len(flags):
        raise JSRegexSyntaxError(f"Invalid flags: {flags!r} names a flag twice")
    if "u" in flags and "v" in flags:
        raise JSRegexSyntaxError(f"Invalid flags: {flags!r} has both u and v")
    return "".join(sorted(flags))


def parse_literal(text: str) -> tuple[str, str] | None:
    """Split ``/source/flags`` into its two parts; None if the text does not have that form.

    A slash inside the source must be escaped or in a class. The parts are not checked: compiling does that.
    """
    found = _LITERAL.fullmatch(text)
    return (found[1], found[2]) if found else None
