"""JavaScript's sorting by a number, indexes of arrays, and ``String#replace`` with a plain text.

In the new text of a replacement ``$$``, ``$&``, ``$` `` and ``$'`` act, as in RisuAI. A few nested replacements could
fill all memory: a text that would become too long stays unchanged.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import TypeVar

from tavernkit._text.js_values.convert import sort_by
from tavernkit._text.traced import join
from tavernkit.errors import Warn, log_warning
from tavernkit.risu_ai._cbs.lists import replace_all as replace_everywhere
from tavernkit.risu_ai._limits import MAX_FILLED_TEXT
from tavernkit.risu_ai.errors import CBSLimitError

T = TypeVar("T")
_PATTERN = re.compile(r"\$([$&`'])")


def sort_descending(items: Sequence[T], number: Callable[[T], float]) -> list[T]:
    """Sort by a number, highest first; ties, and what is compared with NaN, stay as they are."""
    if any(math.isnan(number(item)) for item in items):
        return sort_by(items, lambda a, b: number(b) - number(a))
    return sorted(items, key=lambda item: -number(item))


def replace_first(text: str, wanted: str, new: str, *, warn: Warn = log_warning) -> str:
    """Replace the first occurrence."""
    before, found, after = text.partition(wanted) if wanted else ("", "", text)
    if wanted and not found:
        return text
    if "$" not in new:
        return before + new + after
    written = _PATTERN.split(new)  # plain text and what follows a dollar, by turns
    symbols = {"$": "$", "&": wanted, "`": before, "'": after}
    written[1::2] = [symbols[symbol] for symbol in written[1::2]]
    if sum(map(len, written)) > MAX_FILLED_TEXT:
        return _too_long(text, wanted, warn)
    return join("", [before, *written, after])


def replace_all(text: str, wanted: str, new: str, *, warn: Warn = log_warning) -> str:
    """Replace every occurrence; the patterns see the text as it was."""
    try:
        return replace_everywhere(text, wanted, new, limit=MAX_FILLED_TEXT)
    except CBSLimitError:
        return _too_long(text, wanted, warn)


def _too_long(text: str, wanted: str, warn: Warn) -> str:
    warn(f"{wanted!r:.80} is not replaced: the text would have more than {MAX_FILLED_TEXT} characters")
    return text


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
