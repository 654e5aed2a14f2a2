"""The text as RisuAI's scanner sees it: angle forms replaced, cut where something may open or close."""

from __future__ import annotations

import re

from tavernkit.text.js_values import join_surrogates

OPENERS = ("{{", "{#")
"""What opens a tag; to the scanner both are the same."""

CLOSE = "}}"
LEGACY_CLOSE = "#}"

TOKEN = re.compile(r"(\{[{#]|#\}|\}\})")
"""What may open or close. Closers count only while a tag is open; otherwise they are text like any other."""

_ANGLE_FORM = re.compile(r"<(user|char|bot)>", re.IGNORECASE | re.ASCII)


def prepare(text: str) -> str:
    """Replace ``<user>``, ``<char>`` and ``<bot>`` by tags, before anything else and everywhere."""
    return _ANGLE_FORM.sub(r"{{\1}}", text) if "<" in text else text


def original_position(text: str, position: int) -> int:
    """Turn an offset into the prepared text into the offset into the text itself."""
    for shift, found in enumerate(_ANGLE_FORM.finditer(text)):
        start = found.start() + 2 * shift  # each form before has grown by two characters
        if position <= start:
            return position - 2 * shift
        if position < start + len(found[0]) + 2:
            return found.start()
    return position - 2 * len(_ANGLE_FORM.findall(text))


def joined(parts: list[str]) -> str:
    """Join pieces of text; halves of a character that meet become one, as in JavaScript."""
    text = "".join(parts)
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return join_surrogates(text)
    return text


def needs_joining(inserted: str, rest: str) -> bool:
    """Tell whether the end of an inserted text and the text after it make something together."""
    return inserted[-1:] + rest[:1] in _SEAMS


_SEAMS = frozenset({*OPENERS, CLOSE, LEGACY_CLOSE})
