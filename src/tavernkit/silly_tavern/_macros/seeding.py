"""Cached hashes and the seeded generator of ``{{pick}}``, bit for bit."""

from __future__ import annotations

import sys

from tavernkit._values import LRUCache
from tavernkit.silly_tavern._macros.limits import MAX_CACHED_DRAWS, MAX_CACHED_HASHES, MAX_HASHED_CHARS

_MASK = 0xFFFFFFFF
_UTF16 = "utf-16-le" if sys.byteorder == "little" else "utf-16-be"


def code_units(text: str) -> memoryview[int]:
    """The UTF-16 code units of a text, lone surrogates included."""
    return memoryview(text.encode(_UTF16, "surrogatepass")).cast("H")


def string_hash(text: str) -> int:
    """Hash a text to 53 bits (cyrb53 with seed 0, over UTF-16 code units)."""
    first, second = 0xDEADBEEF, 0x41C6CE57
    for unit in code_units(text):
        first = (first ^ unit) * 2654435761 & _MASK
        second = (second ^ unit) * 1597334677 & _MASK
    first = ((first ^ first >> 16) * 2246822507 & _MASK) ^ ((second ^ second >> 13) * 3266489909 & _MASK)
    second = ((second ^ second >> 16) * 2246822507 & _MASK) ^ ((first ^ first >> 13) * 3266489909 & _MASK)
    return 4294967296 * (second & 2097151) + first


_WIDTH = 256
_ONE_ROUND = (*range(1, _WIDTH), 0)
_CHUNKS = 6
_SIGNIFICANCE = 2**52
_OVERFLOW = 2**53

_hashes: LRUCache[str, int] = LRUCache(MAX_CACHED_HASHES)
_draws: LRUCache[str, float] = LRUCache(MAX_CACHED_DRAWS)


def text_hash(text: str) -> int:
    """Return the hash of a text, cached, because the same texts are expanded every turn."""
    if len(text) > MAX_HASHED_CHARS:
        return string_hash(text)
    return _hashes.get_or_make(text, lambda: string_hash(text))


def place_draw(place: str, ending: str = "") -> float:
    """Return the cached number for a position in a text of a chat; ``ending`` follows the hash in the seed."""
    return _draws.get_or_make(place + ending, lambda: seeded_draw(f"{string_hash(place)}{ending}"))


def _key(seed: str) -> list[int]:
    key: list[int] = []
    smear = 0
    for index, unit in enumerate(code_units(seed)):
        slot = index % _WIDTH
        if slot < len(key):
            smear ^= 19 * key[slot]
            key[slot] = (smear + unit) & 255
        else:
            key.append((smear + unit) & 255)
    return key or [0]


class _Arc4:
    """The RC4 stream that makes the bytes."""

    def __init__(self, key: list[int]) -> None:
        # Optimised for speed, because this takes nearly all of the time of a draw.
        state = list(range(_WIDTH))
        j = 0
        for i, byte in zip(range(_WIDTH), key * (_WIDTH // len(key) + 1), strict=False):
            moved = state[i]
            j = (j + byte + moved) & 255
            state[i] = state[j]
            state[j] = moved
        j = 0
        for i in _ONE_ROUND:  # the first bytes are discarded
            moved = state[i]
            j = (j + moved) & 255
            state[i] = state[j]
            state[j] = moved
        self._state, self._i, self._j = state, 0, j

    def next(self, count: int) -> int:
        """The next bytes as one big-endian number."""
        state, i, j, value = self._state, self._i, self._j, 0
        for _ in range(count):
            i = (i + 1) & 255
            j = (j + state[i]) & 255
            state[i], state[j] = state[j], state[i]
            value = (value << 8) | state[(state[i] + state[j]) & 255]
        self._i, self._j = i, j
        return value


def seeded_draw(seed: str) -> float:
    """The first number of the generator seeded with a text, from 0 up to but not including 1."""
    stream = _Arc4(_key(seed))
    number, denominator, extra = stream.next(_CHUNKS), 2**48, 0
    while number < _SIGNIFICANCE:
        number, denominator, extra = (number + extra) * _WIDTH, denominator * _WIDTH, stream.next(1)
    while number >= _OVERFLOW:
        number, denominator, extra = number // 2, denominator // 2, extra >> 1
    return (number + extra) / denominator
