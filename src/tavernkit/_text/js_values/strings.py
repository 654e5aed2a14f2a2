"""JavaScript strings on Python text: white space, UTF-16 offsets, order, case, percent encoding.

Python text counts code points, JavaScript counts UTF-16 code units: a character outside the basic plane is one here and
two there. Text that was cut inside such a character contains a lone surrogate in both.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tavernkit.errors import TavernKitError


class JSError(TavernKitError, ValueError):
    """Base of the errors that JavaScript itself would throw."""


class JSRangeError(JSError):
    """An argument is out of the range JavaScript allows (``RangeError``)."""


class JSSyntaxError(JSError):
    """A text could not be parsed (``SyntaxError``)."""


class JSURIError(JSError):
    """A text could not be encoded to or decoded from percent form (``URIError``)."""


WHITESPACE = (
    "\t\n\v\f\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f"
    "\u205f\u3000\ufeff"
)
"""What JavaScript calls white space or a line terminator: the set of ``trim``, ``Number()`` and ``\\s``."""

_SURROGATE_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_URI_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.!~*'()")


def trim(text: str) -> str:
    """Remove white space at both ends (``String#trim``)."""
    return text.strip(WHITESPACE)


def trim_start(text: str) -> str:
    """Remove white space at the start (``String#trimStart``)."""
    return text.lstrip(WHITESPACE)


def trim_end(text: str) -> str:
    """Remove white space at the end (``String#trimEnd``)."""
    return text.rstrip(WHITESPACE)


def js_lower(text: str) -> str:
    """Lower-case a text (``String#toLowerCase``)."""
    return text.lower()


def js_upper(text: str) -> str:
    """Upper-case a text (``String#toUpperCase``)."""
    return text.upper()


def is_basic(text: str) -> bool:
    """Return True if every character is one UTF-16 code unit, so that Python offsets are JavaScript offsets."""
    return text.isascii() or not has_astral(text)


def has_astral(text: str) -> bool:
    """Return True if a text has characters outside the basic plane, which are two UTF-16 code units."""
    return len(utf16_units(text)) != 2 * len(text)


def has_surrogates(text: str) -> bool:
    """Return True if a text has surrogates, which other encodings cannot represent."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def utf16_units(text: str) -> bytes:
    """Encode a text as little-endian UTF-16 code units, lone surrogates included."""
    return text.encode("utf-16-le", "surrogatepass")


def from_utf16_units(units: bytes) -> str:
    """Decode little-endian UTF-16 code units; unpaired surrogates are kept."""
    return units.decode("utf-16-le", "surrogatepass")


def join_surrogates(text: str) -> str:
    """Join each high surrogate that is followed by a low one into a character, as in JavaScript strings."""
    if text.isascii() or not has_surrogates(text) or _SURROGATE_PAIR.search(text) is None:
        return text
    return from_utf16_units(utf16_units(text))


def utf16_length(text: str) -> int:
    """Count UTF-16 code units (``String#length``)."""
    if text.isascii():
        return len(text)
    return len(utf16_units(text)) >> 1


def utf16_index(text: str, index: int) -> int:
    """Turn a Python offset into the JavaScript offset of the same place."""
    return utf16_length(text[:index])


def python_index(text: str, utf16_offset: int) -> int:
    """Turn a JavaScript offset into the Python offset; the middle of a pair counts as its start."""
    if utf16_offset <= 0:
        return 0
    if is_basic(text):
        return min(utf16_offset, len(text))
    units = utf16_units(text)[: utf16_offset * 2]
    before = from_utf16_units(units)
    return len(before) - 1 if _ends_in_half(text, before) else len(before)


def _ends_in_half(text: str, before: str) -> bool:
    return "\ud800" <= before[-1] <= "\udbff" and text[len(before) - 1] != before[-1]


def utf16_slice(text: str, start: int, end: int | None = None) -> str:
    """Cut by JavaScript offsets; negative ones count from the end (``String#slice``)."""
    if is_basic(text):
        return text[start:end]
    units = utf16_units(text)
    length = len(units) >> 1
    first, last, _ = slice(start, end).indices(length)
    return from_utf16_units(units[first * 2 : max(first, last) * 2])


def utf16_at(text: str, index: int) -> str:
    """Return the code unit at a JavaScript offset; empty outside the text (``String#charAt``)."""
    return utf16_slice(text, index, index + 1) if index >= 0 else ""


def utf16_find(text: str, needle: str, start: int = 0) -> int:
    """Return the JavaScript offset of the first occurrence at or after an offset, or -1 (``String#indexOf``)."""
    if is_basic(text):
        start = min(max(start, 0), len(text))
        return text.find(needle, start)
    haystack, wanted = utf16_units(text).decode("latin-1"), utf16_units(needle).decode("latin-1")
    start = min(max(start, 0) * 2, len(haystack))
    return next((at >> 1 for at in occurrences(haystack, wanted, start) if at % 2 == 0), -1)


def occurrences(text: str, wanted: str, start: int = 0) -> Iterator[int]:
    """Yield the offset of every occurrence, including overlapping ones, in linear time.

    A search begins again only where the next occurrence is at least half of ``wanted`` away. Closer ones are one period
    of ``wanted`` apart (Fine and Wilf), and then only the period is compared.
    """
    length = len(wanted)
    period = wanted.find(wanted[: length - length // 2], 1)
    if period > 0 and not wanted.startswith(wanted[period:]):
        period = -1
    last_period = wanted[length - period :]
    at = text.find(wanted, start)
    while at >= 0:
        yield at
        if period > 0 and text.startswith(last_period, at + length):
            at += period
        else:
            at = text.find(wanted, at + 1)


def compare_strings(left: str, right: str) -> int:
    """Order two texts by UTF-16 code units as ``<`` does: negative, 0 or positive."""
    if left == right:
        return 0
    return -1 if utf16_sort_key(left) < utf16_sort_key(right) else 1


def utf16_sort_key(text: str) -> bytes:
    """Return a key that sorts texts by UTF-16 code units (``Array#sort`` without a comparer)."""
    return text.encode("utf-16-be", "surrogatepass")


def encode_uri_component(text: str) -> str:
    """Percent-encode a text (``encodeURIComponent``); a lone surrogate raises ``JSURIError``."""
    try:
        data = join_surrogates(text).encode("utf-8")
    except UnicodeEncodeError:
        raise JSURIError("URI malformed") from None
    return "".join(chr(byte) if byte in _URI_UNRESERVED else f"%{byte:02X}" for byte in data)
