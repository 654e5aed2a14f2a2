"""JavaScript's indexes and slices, for effects."""

from __future__ import annotations

import math


def exact_index(number: float, length: int) -> int | None:
    """Return the index for plain indexing: only a whole number inside the range is valid."""
    if 0 <= number < length and number == (index := int(number)):
        return index
    return None


def slice_index(number: float, length: int) -> int:
    """Return a bound of ``slice`` or ``splice``: truncated, negative from the end, inside the range."""
    if math.isnan(number):
        return 0
    if math.isinf(number):
        return length if number > 0 else 0
    index = int(number)
    return max(index + length, 0) if index < 0 else min(index, length)


def at_index(number: float, length: int) -> int | None:
    """Return the index for ``at``: truncated, negative from the end."""
    if math.isinf(number):
        return None
    index = 0 if math.isnan(number) else int(number)
    index = index + length if index < 0 else index
    return index if 0 <= index < length else None
