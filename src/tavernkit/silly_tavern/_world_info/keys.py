"""Kinds of keys, and matching a single key against a text."""

from __future__ import annotations

import re

from tavernkit._text.js_regex import JSRegex, JSRegexSyntaxError
from tavernkit._text.js_values import WHITESPACE, js_lower
from tavernkit._text.js_values.strings import occurrences
from tavernkit.lore._key_index import stands_alone

_REGEX_KEY = re.compile(r"/([\s\S]+?)/([gimsuy]*)")
_BARE_SLASH = re.compile(r"(?:^|[^\\])/")
_MAY_HOLD_MACRO = re.compile(r"[{<\x00]|\\\}")
_BLANK = re.compile(f"[{WHITESPACE}]")


def parse_regex_key(key: str) -> JSRegex | None:
    """Read a key ``/pattern/flags``; one that is not a valid regular expression is plain text, slashes included."""
    if not key.startswith("/"):
        return None
    found = _REGEX_KEY.fullmatch(key)
    if found is None or _BARE_SLASH.search(found[1]):
        return None
    try:
        return JSRegex.compile(found[1].replace("\\/", "/", 1), found[2])
    except JSRegexSyntaxError:
        return None


def may_hold_macro(key: str) -> bool:
    """Return True if macro substitution could change a key; others never need to be substituted."""
    return _MAY_HOLD_MACRO.search(key) is not None


def is_one_word(key: str) -> bool:
    """Return True if a key contains no white space; only such keys are matched as whole words."""
    return _BLANK.search(key) is None


def find_plain(key: str, text: str, *, whole_word: bool) -> int:
    """Find a plain key in a text of the same case; return its offset or -1."""
    if not whole_word or not is_one_word(key):
        return text.find(key)
    places = occurrences(text, key)
    return next((at for at in places if stands_alone(text, at, at + len(key))), -1)


def fold(text: str, *, case_sensitive: bool) -> str:
    """Convert a key or text to the case for comparison."""
    return text if case_sensitive else js_lower(text)
