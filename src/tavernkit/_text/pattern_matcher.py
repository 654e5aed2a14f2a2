"""Patterns people write to find something in a text: plain words, or ``/regex/flags``."""

from __future__ import annotations

import re

from tavernkit._text.coerce import BLANKS, trim_blanks
from tavernkit._text.js_regex import DEFAULT_TIMEOUT, JSRegex, JSRegexSyntaxError
from tavernkit._text.occurrences import occurrences
from tavernkit.errors import Warn

_LITERAL = re.compile(r"/((?:[^\\/]++|\\.)++)/([a-z]*)", re.DOTALL)
_WORD = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_")


def matches(
    pattern: str | JSRegex,
    text: str,
    *,
    case_sensitive: bool = False,
    match_whole_words: bool = False,
    timeout: float | None = DEFAULT_TIMEOUT,
    warn: Warn | None = None,
) -> bool:
    """Return True if a pattern is found in a text.

    Only the regex flags ``i`` and ``s`` are used. Whole-word matching applies only to patterns of one word. An invalid
    regex matches nothing and is reported.
    """
    if isinstance(pattern, JSRegex):
        return _regex_matches(pattern.source, pattern.flags, text, case_sensitive, timeout, warn)
    literal = _LITERAL.fullmatch(pattern)
    if literal is not None:
        return _regex_matches(literal[1], literal[2], text, case_sensitive, timeout, warn)
    wanted = trim_blanks(pattern)
    if not wanted:
        return False
    if not case_sensitive:
        wanted, text = wanted.lower(), text.lower()
    if match_whole_words and not any(blank in wanted for blank in BLANKS):
        return _has_word(text, wanted)
    return wanted in text


def _regex_matches(
    source: str, flags: str, text: str, case_sensitive: bool, timeout: float | None, warn: Warn | None
) -> bool:
    kept = ("i" if "i" in flags or not case_sensitive else "") + ("s" if "s" in flags else "")
    try:
        regex = JSRegex.compile(source, kept)
    except JSRegexSyntaxError as error:
        if warn is not None:
            warn(f"the pattern matches nothing: {error}")
        return False
    return regex.test(text, timeout=timeout, warn=warn)


def _has_word(text: str, word: str) -> bool:
    return any(
        text[at - 1 : at] not in _WORD and text[at + len(word) : at + len(word) + 1] not in _WORD
        for at in occurrences(text, word)
    )
