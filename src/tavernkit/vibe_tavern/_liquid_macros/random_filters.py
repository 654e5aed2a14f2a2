"""Filters ``hash7``, ``hash``, ``pick`` and ``rollp``: random, and the same every time."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

from tavernkit._text import strict_json
from tavernkit._text.coerce import trim_blanks
from tavernkit._values import is_list, is_sequence
from tavernkit.vibe_tavern._limits import MAX_DICE
from tavernkit.vibe_tavern._liquid_macros.numbers import to_number, to_text

_MASK = 0xFFFFFFFF
_COUNTER_PERIOD = 1000


def random_values(counters: Iterable[int], word: str) -> list[float]:
    """Return numbers from 0 up to 1: the ones at these places (modulo 1000) of the generator seeded by the word."""
    places = [counter % _COUNTER_PERIOD for counter in counters]
    state = _seed_from(word)
    sequence: list[int] = []
    for _ in range(max(places, default=-1) + 1):
        value, state = _step(state)
        sequence.append(value)
    return [sequence[place] / (_MASK + 1) for place in places]


def _seed_from(word: str) -> tuple[int, int, int, int]:
    """Hash the word four times, each time continuing from the last hash."""
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


_SEPARATOR = re.compile(r":|(?<!\\),")
_SEVEN_DIGITS = 10_000_000
_COUNTER_STRIDE = 15
"""Distance between the counters of two dice of one roll."""


def hash7(value: object) -> str:
    """Seven digits that depend on the text alone."""
    (throw,) = random_values((0,), to_text(value))
    number = math.floor(throw * _SEVEN_DIGITS)
    return f"{min(number, _SEVEN_DIGITS - 1):07d}"


def pick(value: object, counter: int, word: str) -> str:
    """Take one element of a list, of JSON list text, or of text with commas or colons."""
    elements = _elements(value)
    if not elements:
        return ""
    (throw,) = random_values((counter,), word)
    chosen = elements[math.floor(throw * len(elements))]
    return chosen if isinstance(chosen, str) else strict_json.compact(chosen)


def rollp(value: object, counter: int, word: str) -> str:
    """Throw dice written as ``2d6``, ``d20`` or ``20``; ``NaN`` for what is not dice."""
    dice = _dice(to_text(value))
    if dice is None:
        return "NaN"
    count, sides = dice
    throws = random_values((counter + _COUNTER_STRIDE * index for index in range(count)), word)
    return str(sum(math.floor(throw * sides) + 1 for throw in throws))


def _elements(value: object) -> list[object]:
    if is_sequence(value):
        return list(value)
    text = to_text(value)
    trimmed = trim_blanks(text)
    if trimmed.startswith("[") and trimmed.endswith("]"):
        try:
            listed = strict_json.loads(trimmed)
        except ValueError:
            listed = None
        if is_list(listed):
            return [*listed]
    parts = [part.replace("\\,", ",") for part in _SEPARATOR.split(text)]
    while parts and not parts[-1]:
        parts.pop()
    return [*parts]


def _dice(text: str) -> tuple[int, float] | None:
    parts = trim_blanks(text).split("d")
    while parts and not parts[-1]:
        parts.pop()
    if len(parts) not in (1, 2):
        return 1, 6
    written_count, written_sides = ("", parts[0]) if len(parts) == 1 else parts
    count = to_number(written_count) if trim_blanks(written_count) else 1
    sides = to_number(written_sides) if trim_blanks(written_sides) else 6
    if count is None or sides is None or count < 1 or sides < 1 or math.isinf(count) or math.isinf(sides):
        return None
    return min(math.ceil(count), MAX_DICE), sides
