"""Which characters are the same to the ``i`` flag without ``u`` or ``v``: those with the same upper case.

The engine folds by Unicode's tables in either mode, which would let ``/s/i`` match ``ſ`` and ``/i/i`` match ``ı``.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cache, lru_cache

Range = tuple[int, int]

NOT_WORD: tuple[Range, ...] = (
    *((0x00, 0x2F), (0x3A, 0x40), (0x5B, 0x5E), (0x60, 0x60)),
    *((0x7B, 0x17E), (0x180, 0x2129), (0x212B, 0x10FFFF)),
)
"""What is not a word character with both ``i`` and ``u``: ſ and the Kelvin sign are, as variants of letters."""

_UNITS = 0x10000
_ASCII_END = 0x80
_CASE_BIT = 0x20


def _canonical(character: str) -> str:
    upper = character.upper()
    if len(upper) != 1 or (upper.isascii() and not character.isascii()):
        return character
    return upper


@cache
def _families() -> dict[int, tuple[int, ...]]:
    """Map each code unit that has variants to all of them, itself included."""
    by_canonical: defaultdict[str, list[int]] = defaultdict(list)
    for code in range(_UNITS):
        character = chr(code)
        if character.upper() != character or character.lower() != character:
            by_canonical[_canonical(character)].append(code)
    return {code: tuple(family) for family in by_canonical.values() if len(family) > 1 for code in family}


def variants(code: int) -> tuple[int, ...]:
    """Return the characters that are the same as one, itself included."""
    if code < _ASCII_END:
        return (code & ~_CASE_BIT, code | _CASE_BIT) if chr(code).isalpha() else (code,)
    return _families().get(code, (code,))


@lru_cache(maxsize=1024)
def close_range(first: int, last: int) -> tuple[Range, ...]:
    """Return a range and the ranges of all variants of its characters that are not in it."""
    ranges = [(first, last)]
    if last < _ASCII_END:
        for low, high in ((0x41, 0x5A), (0x61, 0x7A)):
            start, end = max(first, low), min(last, high)
            if start <= end:
                ranges.append((start ^ _CASE_BIT, end ^ _CASE_BIT))
        return tuple(ranges)
    outside: set[int] = set()
    for code, family in _families().items():
        if first <= code <= last:
            outside.update(member for member in family if not first <= member <= last)
    return (*ranges, *[(code, code) for code in sorted(outside)])
