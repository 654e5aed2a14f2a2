"""Chat variables that remember which entries were active."""

from __future__ import annotations

import math
import struct
from functools import lru_cache

from tavernkit.text.js_values import number_to_string
from tavernkit.text.js_values.strings import utf16_units

KEEP_PREFIX = "__internal_ka_"
DONT_PREFIX = "__internal_da_"
_SEED = 5515.0
_SKIPPED = 555
_MASK = 0xFFFFFFFF
HASH_CACHE = 4096


@lru_cache(maxsize=HASH_CACHE)
def content_id(content: str) -> str:
    """The id of an entry that has none: a number drawn from its whole content."""
    units = [unit for (unit,) in struct.iter_unpack("<H", utf16_units(content))]
    state: list[int] = []
    value = _SEED
    for _ in range(4):
        for unit in units:
            value = _int32(_int32_of(value) << 5) + value + unit
        state.append(int(math.fmod(value, 4294967296)) & _MASK)
    draw = 0.0
    for _ in range(_SKIPPED + 1):
        draw = _sfc32(state)
    return number_to_string(draw)


def _sfc32(state: list[int]) -> float:
    a, b, c, d = state
    total = (a + b + d) & _MASK
    state[3] = (d + 1) & _MASK
    state[0] = b ^ (b >> 9)
    state[1] = (c + (c << 3)) & _MASK
    state[2] = ((((c << 21) | (c >> 11)) & _MASK) + total) & _MASK
    return total / 4294967296


def _int32_of(value: float) -> int:
    return _int32(int(math.fmod(value, 4294967296)))


def _int32(value: int) -> int:
    value &= _MASK
    return value - 0x100000000 if value >= 0x80000000 else value
