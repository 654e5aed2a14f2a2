"""Case folding of the ``i`` flag: without ``u`` or ``v``, characters with the same upper case are equal.

The engine folds by Unicode's tables in either mode, which would let ``/s/i`` match ``ſ`` and ``/i/i`` match ``ı``.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from functools import cache, lru_cache

import regress

Range = tuple[int, int]

NOT_WORD: tuple[Range, ...] = (
    *((0x00, 0x2F), (0x3A, 0x40), (0x5B, 0x5E), (0x60, 0x60)),
    *((0x7B, 0x17E), (0x180, 0x2129), (0x212B, 0x10FFFF)),
)
"""What is not a word character with both ``i`` and ``u``: ſ and the Kelvin sign are, as variants of letters."""

_UNITS = 0x10000
_CASED_END = 0x1F000
_ASCII_END = 0x80
_CASE_BIT = 0x20
_NEAR = 64


def _canonical(character: str) -> str:
    upper = character.upper()
    if len(upper) != 1 or (upper.isascii() and not character.isascii()):
        return character
    return upper


@cache
def _families() -> dict[int, tuple[int, ...]]:
    """Map each code unit with variants to all of them, including itself."""
    by_canonical: defaultdict[str, list[int]] = defaultdict(list)
    for code in range(_UNITS):
        character = chr(code)
        if character.upper() != character or character.lower() != character:
            by_canonical[_canonical(character)].append(code)
    return {code: tuple(family) for family in by_canonical.values() if len(family) > 1 for code in family}


def variants(code: int) -> tuple[int, ...]:
    """Return the characters that are equal to one, including itself."""
    if code < _ASCII_END:
        return (code & ~_CASE_BIT, code | _CASE_BIT) if chr(code).isalpha() else (code,)
    return _families().get(code, (code,))


Pairs = list[tuple[int, int]]
"""Characters, each with one of its variants, in order."""


@cache
def _pairs() -> tuple[Pairs, Pairs]:
    """List the pairs of variants: those near each other, and the rest."""
    pairs = sorted((code, member) for code, family in _families().items() for member in family if member != code)
    near = [pair for pair in pairs if abs(pair[0] - pair[1]) < _NEAR]
    return near, [pair for pair in pairs if abs(pair[0] - pair[1]) >= _NEAR]


@lru_cache(maxsize=1024)
def other_variants(first: int, last: int) -> tuple[int, ...]:
    """Return the variants of a range's characters that are outside it."""
    if last < _ASCII_END:
        letters = [code for code in range(first, last + 1) if chr(code).isalpha()]
        return tuple([code ^ _CASE_BIT for code in letters if not first <= code ^ _CASE_BIT <= last])
    if first == last:
        return tuple([code for code in variants(first) if code != first])
    near, far = _pairs()
    # Of pairs near each other, only those near an end of the range can have a variant outside.
    start, end = bisect_left(near, (first, 0)), bisect_left(near, (last + 1, 0))
    low, high = bisect_left(near, (first + _NEAR, 0), start, end), bisect_left(near, (last - _NEAR, 0), start, end)
    pairs = near[start:end] if low >= high else near[start:low] + near[high:end]
    pairs += far[bisect_left(far, (first, 0)) : bisect_left(far, (last + 1, 0))]
    return tuple(sorted({member for _, member in pairs if not first <= member <= last}))


# With ``u`` or ``v``, characters are equal if Unicode folds them to the same one.


def simple_fold(code: int) -> int:
    """Return the character that a character is folded to with both ``i`` and ``u`` or ``v``."""
    character = chr(code)
    for folded in (character.casefold(), character.lower()):
        if len(folded) == 1:
            return ord(folded)
    return code


@cache
def _unicode_families() -> dict[int, tuple[int, ...]]:
    by_fold: defaultdict[int, list[int]] = defaultdict(list)
    for code in range(_CASED_END):
        character = chr(code)
        if not (character == character.lower() == character.upper() == character.casefold()):
            by_fold[simple_fold(code)].append(code)
    return {code: tuple(family) for family in by_fold.values() if len(family) > 1 for code in family}


@cache
def cased_characters() -> str:
    """Return all characters that have variants."""
    return "".join(map(chr, sorted(_unicode_families())))


@lru_cache(maxsize=1024)
def unicode_variants(first: int, last: int) -> tuple[int, ...]:
    """Return the variants of a range's characters that are outside it, with ``u`` or ``v``."""
    families = _unicode_families()
    if first == last:
        return tuple([code for code in families.get(first, ()) if code != first])
    within = [code for code in families if first <= code <= last]
    return tuple(sorted({member for code in within for member in families[code] if not first <= member <= last}))


@lru_cache(maxsize=256)
def property_variants(name: str) -> tuple[int, ...]:
    """Return the variants of a property's characters that do not have it; raises ``regress.RegressError``."""
    text = cased_characters().encode()
    source = f"\\p{{{name}}}"
    folded, plain = (
        {ord(text[found.range()].decode()) for found in regress.Regex(source, flags).find_iter(text.decode()) or ()}
        for flags in ("iu", "u")
    )
    return tuple(sorted(folded - plain))
