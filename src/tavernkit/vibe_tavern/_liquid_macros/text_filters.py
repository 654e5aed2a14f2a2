"""Standard filters of text that must match Liquid exactly, even for odd input."""

from __future__ import annotations

import base64
import binascii
import re
from urllib.parse import unquote_to_bytes

from liquid.exceptions import FilterArgumentError

from tavernkit._values import is_mapping, is_sequence
from tavernkit.vibe_tavern._liquid_macros.numbers import to_text
from tavernkit.vibe_tavern._liquid_macros.operands import given, to_whole_number

_BLANKS = re.compile(r"[\0\t\n\v\f\r ]+")
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;"}
_SPECIAL = re.compile(r"[&<>\"']")
_SPECIAL_ONCE = re.compile(r"[<>\"']|&(?!(?:[a-zA-Z]+|#[0-9]+);)")
_HTML_BLOCKS = (("<script", "</script>"), ("<!--", "-->"), ("<style", "</style>"), ("<", ">"))
_INTEGER_SIZE = 8
"""The result of ``size`` for every whole number: its bytes."""


def truncate(value: object, length: object = 50, ellipsis: object = "...") -> str:
    """Cut a text to this many characters, the ellipsis counted."""
    text, end, most = _text(value), _text(ellipsis), to_whole_number(length)
    return text[: max(most - len(end), 0)] + end if len(text) > most else text


def truncatewords(value: object, count: object = 15, ellipsis: object = "...") -> str:
    """Cut a text to this many words."""
    text, most = _text(value), max(to_whole_number(count), 1)
    words = _BLANKS.split(text.lstrip("\0\t\n\v\f\r "), maxsplit=most)
    return text if len(words) <= most else " ".join(words[:most]) + _text(ellipsis)


def escape(value: object) -> str:
    """Escape HTML."""
    return _SPECIAL.sub(lambda match: _ENTITIES[match.group()], _text(value))


def escape_once(value: object) -> str:
    """Escape HTML, except existing entities."""
    return _SPECIAL_ONCE.sub(lambda match: _ENTITIES[match.group()], _text(value))


def strip_html(value: object) -> str:
    """Remove scripts, styles, comments and tags."""
    text = _text(value)
    for opening, closing in _HTML_BLOCKS:
        text = _without(text, opening, closing)
    return text


def url_decode(value: object) -> str:
    """Decode percent escapes, and plus signs as spaces."""
    try:
        return unquote_to_bytes(_text(value).replace("+", " ")).decode()
    except UnicodeDecodeError:
        raise FilterArgumentError("invalid byte sequence in UTF-8", token=None) from None


def base64_decode(value: object) -> str:
    """Read Base64."""
    try:
        return base64.b64decode(_text(value), validate=True).decode()
    except (binascii.Error, ValueError):
        raise FilterArgumentError("invalid base64 provided to base64_decode", token=None) from None


def size(value: object) -> int:
    """Count characters, elements or keys."""
    value = given(value)
    if isinstance(value, (str, range)) or is_sequence(value) or is_mapping(value):
        return len(value)
    return _INTEGER_SIZE if isinstance(value, int) and not isinstance(value, bool) else 0


def slice_(value: object, start: object, length: object = None) -> object:
    """Return this many characters or elements, one by default; a negative start counts from the end."""
    first, count = to_whole_number(start), 1 if given(length) is None else to_whole_number(length)
    whole = list(value) if is_sequence(value) else _text(value)
    first += len(whole) if first < 0 else 0
    return whole[:0] if first < 0 or count < 0 else whole[first : first + count]


def _without(text: str, opening: str, closing: str) -> str:
    kept: list[str] = []
    position = 0
    while (start := text.find(opening, position)) >= 0 and (end := text.find(closing, start + len(opening))) >= 0:
        kept.append(text[position:start])
        position = end + len(closing)
    return "".join((*kept, text[position:]))


def _text(value: object) -> str:
    return to_text(given(value))
