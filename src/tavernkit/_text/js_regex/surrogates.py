"""Stand-ins for surrogates, which the engine cannot read.

Each surrogate is mapped to a range of an unassigned plane (U+5D800 to U+5DFFF). Only texts that use those code points
themselves are misread.
"""

from __future__ import annotations

import re

from tavernkit._text.js_values.strings import join_surrogates

_PLANE = 0x50000
_FIRST, _LAST = 0xD800, 0xDFFF

STAND_IN_LEAD = b"\xf1\x9d"
"""The first bytes of every stand-in in UTF-8, and of a few characters below them."""

HALF_SIZE = 4
"""The bytes of a stand-in in UTF-8."""

_FIRST_LOW = 0xB0
"""From this third byte on, a stand-in is the second half of a pair."""

_PAIR = re.compile(rb"\xf1\x9d[\xa0-\xaf].\xf1\x9d[\xb0-\xbf].", re.DOTALL)
_ASTRAL = re.compile("[\U00010000-\U0005d7ff\U0005e000-\U0010ffff]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_STAND_IN = re.compile("[\U0005d800-\U0005dfff]")
_HIGH_PLANE = re.compile(rb"[\xf1-\xf4][\x80-\xbf]{3}")


def stand_in(code: int) -> int:
    """Return the stand-in of a surrogate; other characters are returned unchanged."""
    return code + _PLANE if _FIRST <= code <= _LAST else code


def to_stand_ins(text: str) -> str:
    """Replace the surrogates of a text with their stand-ins."""
    return _SURROGATE.sub(lambda found: chr(ord(found[0]) + _PLANE), text)


def from_stand_ins(text: str) -> str:
    """Replace stand-ins with their surrogates, and pairs with their character."""
    return join_surrogates(_STAND_IN.sub(lambda found: chr(ord(found[0]) - _PLANE), text))


def to_halves(text: str) -> str:
    """Replace each character outside the basic plane with its two stand-ins."""
    return _ASTRAL.sub(lambda found: halves(found[0].encode()).decode(), text)


def halves(character: bytes) -> bytes:
    """Return the two stand-ins of a character outside the basic plane, all in UTF-8."""
    code = ord(character.decode()) - 0x10000
    high, low = 0xD800 + (code >> 10), 0xDC00 + (code & 0x3FF)
    return (chr(_PLANE + high) + chr(_PLANE + low)).encode()


def count_pairs(data: bytes) -> int:
    """Count the characters that are stored as two stand-ins."""
    return 0 if data.find(STAND_IN_LEAD) < 0 else len(_PAIR.findall(data))


def count_astral(text: str) -> int:
    """Count the characters outside the basic plane, without the stand-ins."""
    return len(_ASTRAL.findall(text))


def is_inside_pair(data: bytes, offset: int) -> bool:
    """Return True if an offset is between the two stand-ins of a character."""
    return (
        data.startswith(STAND_IN_LEAD, offset)
        and data[offset + 2] >= _FIRST_LOW
        and offset >= HALF_SIZE
        and data.startswith(STAND_IN_LEAD, offset - HALF_SIZE)
        and data[offset - 2] < _FIRST_LOW
    )


def astral_characters(data: bytes) -> set[bytes]:
    """Find the characters outside the basic plane in UTF-8, without existing stand-ins."""
    found = {b"\xf0" + rest[:3] for rest in data.split(b"\xf0")[1:]}
    if any(lead in data for lead in (b"\xf1", b"\xf2", b"\xf3", b"\xf4")):
        found.update(one for one in _HIGH_PLANE.findall(data) if _STAND_IN.fullmatch(one.decode()) is None)
    return found


def engine_ranges(first: int, last: int) -> list[tuple[int, int]]:
    """Split a range of characters so that its surrogates are stand-ins and it contains no other stand-ins."""
    parts = [
        (first, min(last, _FIRST - 1)),
        (max(first, _LAST + 1), min(last, _FIRST + _PLANE - 1)),
        (max(first, _LAST + _PLANE + 1), last),
    ]
    if first <= _LAST and last >= _FIRST:
        parts.append((max(first, _FIRST) + _PLANE, min(last, _LAST) + _PLANE))
    return [(low, high) for low, high in parts if low <= high]
