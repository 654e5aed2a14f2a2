"""JavaScript's ``String#replace``, sorting by a number and indexes of arrays.

In the new text of a replacement ``$$``, ``$&``, ``$` `` and ``$'`` act, as in RisuAI. A few nested replacements could
fill all memory: a text that would become too long stays unchanged.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from tavernkit._text.js_values import is_basic, join_surrogates
from tavernkit._text.js_values.convert import sort_by
from tavernkit._text.traced import join
from tavernkit.errors import Warn, log_warning
from tavernkit.risu_ai._limits import MAX_FILLED_TEXT
from tavernkit.risu_ai.errors import CBSLimitError

T = TypeVar("T")
_PATTERN = re.compile(r"\$([$&`'])")
_ASTRAL = re.compile("[\U00010000-\U0010ffff]")


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
        return replace_within(MAX_FILLED_TEXT, text, wanted, new)
    except CBSLimitError:
        return _too_long(text, wanted, warn)


def _too_long(text: str, wanted: str, warn: Warn) -> str:
    warn(f"{wanted!r:.80} is not replaced: the text would have more than {MAX_FILLED_TEXT} characters")
    return text


def replace_within(limit: int, text: str, needle: str, replacement: str) -> str:
    """Replace every occurrence; raises ``CBSLimitError`` if that makes more characters than the limit."""
    if not (is_basic(text) and is_basic(needle)):
        return join_surrogates(_replace_all(code_units(text), code_units(needle), replacement, limit))
    return _replace_all(text, needle, replacement, limit)


def _replace_all(text: str, needle: str, replacement: str, limit: int) -> str:
    if "$" in replacement:
        written = _PATTERN.split(replacement)  # alternating plain text and what follows a ``$``
        around = sum(symbol in "`'" for symbol in written[1::2])
        if around:
            return _replace_around(text, needle, written, around, limit)
        written[1::2] = [needle if symbol == "&" else symbol for symbol in written[1::2]]
        replacement = "".join(written)
    if (len(text) + 1) * len(replacement) > limit:
        _check_size(text.count(needle) * len(replacement), limit)
    return text.replace(needle, replacement)


def _replace_around(text: str, needle: str, written: list[str], around: int, limit: int) -> str:
    """Replace with a replacement that repeats the text around it."""
    size = sum(map(len, written[::2])) + (1 + len(needle)) * len(written[1::2])
    _check_size(text.count(needle) * (size + len(text) * around), limit)
    pieces: list[str] = []
    end = 0
    for start in _occurrences(text, needle):
        stop = start + len(needle)
        special = {"$": "$", "&": needle, "`": text[:start], "'": text[stop:]}
        pieces.append(text[end:start])
        pieces += [special[each] if index % 2 else each for index, each in enumerate(written)]
        end = stop
    return "".join(pieces) + text[end:]


def _check_size(characters: int, limit: int) -> None:
    if characters > limit:
        raise CBSLimitError(f"a replacement would make {characters} characters", limit="MAX_CHARACTERS")


def _occurrences(text: str, needle: str) -> Iterable[int]:
    if not needle:
        return range(len(text) + 1)
    return (found.start() for found in re.finditer(re.escape(needle), text))


def code_units(text: str) -> str:
    """Split characters outside the basic plane into surrogates, so that Python counts as JavaScript does."""
    return text if is_basic(text) else _ASTRAL.sub(lambda found: _halves(ord(found[0])), text)


def _halves(code: int) -> str:
    code -= 0x10000
    return chr(0xD800 + (code >> 10)) + chr(0xDC00 + (code & 0x3FF))


# Patterns of an opener, any text and a closer are replaced in linear time, even with unclosed openers. A regular
# expression would search for the closer after every opener, up to the end of the text (or line). After the last closer
# nothing can match, so that part is not searched.
_LINE = re.compile("[^\n\r\u2028\u2029]+")

Replacement = str | Callable[[re.Match[str]], str]


def replace_delimited(pattern: re.Pattern[str], closer: str, new: Replacement, text: str) -> str:
    """Replace the matches of a pattern that ends with a closer."""
    end = text.rfind(closer) + len(closer)
    return pattern.sub(new, text[:end]) + text[end:] if end >= len(closer) else text


def replace_in_lines(pattern: re.Pattern[str], closer: str, new: Replacement, text: str) -> str:
    """Replace the matches of a pattern that ends with a closer on the line it began on."""
    if closer not in text:
        return text
    return _LINE.sub(lambda line: replace_delimited(pattern, closer, new, line[0]), text)


def sort_descending(items: Sequence[T], number: Callable[[T], float]) -> list[T]:
    """Sort by a number, highest first; ties, and what is compared with NaN, stay as they are."""
    if any(math.isnan(number(item)) for item in items):
        return sort_by(items, lambda a, b: number(b) - number(a))
    return sorted(items, key=lambda item: -number(item))


INDEX_LIMIT = 2**32 - 1
"""In JavaScript numbers from here on are not indexes of arrays, but names of properties."""


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
