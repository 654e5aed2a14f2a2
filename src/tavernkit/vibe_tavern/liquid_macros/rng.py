"""Randomness that is the same for the same word and counter, in every process."""

from __future__ import annotations

_MASK = 0xFFFFFFFF
_COUNTER_PERIOD = 1000


def random_value(counter: int, word: str) -> float:
    """Return a number from 0 up to 1: the ``counter``-th (modulo 1000) of the generator seeded by the word."""
    state = _seeded(word)
    value = 0
    for _ in range(counter % _COUNTER_PERIOD + 1):
        value, state = _step(state)
    return value / (_MASK + 1)


def _seeded(word: str) -> tuple[int, int, int, int]:
    data = word.encode("utf-8", "surrogatepass")
    running = 5515
    seeds: list[int] = []
    for _ in range(4):
        for byte in data:
            running = (33 * running + byte) & _MASK
        seeds.append(running)
    return seeds[0], seeds[1], seeds[2], seeds[3]


def _step(state: tuple[int, int, int, int]) -> tuple[int, tuple[int, int, int, int]]:
    a, b, c, d = state
    total = (a + b + d) & _MASK
    d = (d + 1) & _MASK
    a = b ^ (b >> 9)
    b = (c + ((c << 3) & _MASK)) & _MASK
    c = ((((c << 21) & _MASK) | (c >> 11)) + total) & _MASK
    return total, (a, b, c, d)
