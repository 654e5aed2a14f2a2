"""Randomness that is the same for the same word and counter, in every process."""

from __future__ import annotations

from collections.abc import Iterable

_MASK = 0xFFFFFFFF
_COUNTER_PERIOD = 1000


def random_values(counters: Iterable[int], word: str) -> list[float]:
    """Return numbers from 0 up to 1: the ones at these places (modulo 1000) of the generator seeded by the word."""
    places = [counter % _COUNTER_PERIOD for counter in counters]
    state = _seeded(word)
    sequence: list[int] = []
    for _ in range(max(places, default=-1) + 1):
        value, state = _step(state)
        sequence.append(value)
    return [sequence[place] / (_MASK + 1) for place in places]


def _seeded(word: str) -> tuple[int, int, int, int]:
    """Hash the word four times over, each time going on from the last hash; the bytes are read only once."""
    data = word.encode("utf-8", "surrogatepass")
    factor, hashed = pow(33, len(data), _MASK + 1), 0
    for byte in data:
        hashed = (33 * hashed + byte) & _MASK
    seeds = [5515]
    for _ in range(4):
        seeds.append((factor * seeds[-1] + hashed) & _MASK)
    return seeds[1], seeds[2], seeds[3], seeds[4]


def _step(state: tuple[int, int, int, int]) -> tuple[int, tuple[int, int, int, int]]:
    a, b, c, d = state
    total = (a + b + d) & _MASK
    d = (d + 1) & _MASK
    a = b ^ (b >> 9)
    b = (c + ((c << 3) & _MASK)) & _MASK
    c = ((((c << 21) & _MASK) | (c >> 11)) + total) & _MASK
    return total, (a, b, c, d)
