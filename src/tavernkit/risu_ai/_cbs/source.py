"""The text as RisuAI's scanner sees it: angle forms replaced, split where something may open or close."""

from __future__ import annotations

import re
from bisect import bisect_left

from tavernkit._text.js_values import join_surrogates
from tavernkit._text.traced import join, substitute

OPENERS = ("{{", "{#")
"""What opens a tag; to the scanner both are the same."""

OPENER = re.compile(r"\{[{#]")

CLOSE = "}}"
LEGACY_CLOSE = "#}"

# The first match counts: `{{#}}` ends at its `#}`.
TOKEN = re.compile(r"(\{[{#]|#\}|\}\})")
"""What may open or close. Closers count only while a tag is open; otherwise they are text like any other."""

_ANGLE_FORM = re.compile(r"<(user|char|bot)>", re.IGNORECASE | re.ASCII)


def prepare(text: str) -> str:
    """Replace ``<user>``, ``<char>`` and ``<bot>`` with tags everywhere, before anything else."""
    if "<" not in text:
        return text
    return _ANGLE_FORM.sub(r"{{\1}}", text) if type(text) is str else substitute(_ANGLE_FORM, _tag_of, text)


def _tag_of(found: re.Match[str]) -> str:
    return f"{{{{{found[1]}}}}}"


class Origins:
    """Converts offsets in a prepared text to offsets in the original text."""

    __slots__ = ("_ends", "_starts")

    def __init__(self, text: str) -> None:
        forms = [found.span() for found in _ANGLE_FORM.finditer(text)] if "<" in text else []
        # each form has grown by two characters, like all before it
        self._starts = [start + 2 * before for before, (start, _) in enumerate(forms)]
        self._ends = [end + 2 * before + 2 for before, (_, end) in enumerate(forms)]

    def of(self, position: int) -> int:
        """Return the original position; inside a form, where the form begins."""
        before = bisect_left(self._starts, position)
        if before and position < self._ends[before - 1]:
            return self._starts[before - 1] - 2 * (before - 1)
        return position - 2 * before


def joined(parts: list[str]) -> str:
    """Join pieces of text; adjacent halves of a character are joined, as in JavaScript."""
    text = parts[0] if len(parts) == 1 else join("", parts)
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return join_surrogates(text)
    return text


def needs_joining(inserted: str, rest: str) -> bool:
    """Return True if the end of an inserted text and the text after it form a token together."""
    return inserted[-1:] + rest[:1] in _SEAMS


_SEAMS = frozenset({*OPENERS, CLOSE, LEGACY_CLOSE})
