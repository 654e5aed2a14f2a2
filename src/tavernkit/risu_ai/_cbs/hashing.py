"""RisuAI's deterministic generator: a number from 0 up to 1 for a word and an index."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice

_MASK = 0xFFFFFFFF
_PERIOD = 1000


@lru_cache(maxsize=64)
def _seeds(word: str) -> tuple[int, int, int, int]:
    data = word.encode("utf-16-le", "surrogatepass")
    units = struct.unpack(f"<{len(data) // 2}H", data)
    hashed = 5515  # never reset: each seed goes on where the one before ended
    seeds: list[int] = []
    for _ in range(4):
        for unit in units:
            # only the shifted part wraps to 32 bits, with its sign; the sum does not
            shifted = (hashed << 5) & _MASK
            hashed += unit + (shifted - 0x100000000 if shifted & 0x80000000 else shifted)
        seeds.append(hashed & _MASK)
    return seeds[0], seeds[1], seeds[2], seeds[3]


def pick_hash_rand(index: int, word: str) -> float:
    """Always return the same number for the same word and index; a negative index counts as 0."""
    return next(_numbers(word)) if index <= 0 else _sequence(word)[index % _PERIOD]


def hash_number(word: str, index: int) -> float:
    """Return the number of a word at an index, without keeping the others."""
    return next(islice(_numbers(word), index, None))


@lru_cache(maxsize=64)
def _sequence(word: str) -> tuple[float, ...]:
    return tuple(islice(_numbers(word), _PERIOD))


def _numbers(word: str) -> Iterator[float]:
    """The generator sfc32, seeded with a word."""
    a, b, c, d = _seeds(word)
    while True:
        value = (a + b + d) & _MASK
        d = (d + 1) & _MASK
        a = b ^ (b >> 9)
        b = (c + (c << 3)) & _MASK
        c = ((c << 21) | (c >> 11)) & _MASK
        c = (c + value) & _MASK
        yield value / 0x100000000
