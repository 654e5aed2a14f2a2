"""Measuring a text for the cost model: sets of characters counted in bulk."""

from __future__ import annotations

import re
from functools import lru_cache

from tavernkit.text.js_regex.alphabet import ASCII, ASCII_SIZE
from tavernkit.text.js_regex.limits import MEASURES_CACHE_SIZE
from tavernkit.values import LRUCache

_MEMBER = b"\x01"
_MANY = 2000
_LONG_RUN = re.compile(rb"\x01{16,}")


@lru_cache(maxsize=512)
def _table(ascii_mask: int) -> bytes:
    """Return the table that turns members of a set into 1 and all others into 0."""
    return bytes((ascii_mask >> code) & 1 for code in range(ASCII_SIZE)).ljust(256, b"\0")


class TextMeasures:
    """The measures of one text; each is taken when first asked for."""

    __slots__ = ("_counts", "_data", "_runs", "_text", "_wide", "length")

    def __init__(self, text: str) -> None:
        self.length = len(text)
        self._text = text
        self._wide = not text.isascii()
        # Characters beyond ASCII all become "?": a set that has any of them is taken to have all, and "?" with them.
        self._data = text.encode("ascii", "replace")
        self._runs: dict[int, int] = {}
        self._counts: dict[int, int] = {}

    def _marked(self, mask: int) -> bytes:
        ascii_mask = mask & ASCII
        if self._wide and mask & ~ASCII:
            ascii_mask |= 1 << ord("?")
        return self._data.translate(_table(ascii_mask))

    def run(self, mask: int) -> int:
        """Return the length of the longest run of a set's characters, or a little more."""
        known = self._runs.get(mask)
        if known is None:
            known = self._runs[mask] = min(_longest_run(self._marked(mask)), self.length)
        return known

    def count(self, mask: int) -> int:
        """Return the number of a set's characters."""
        known = self._counts.get(mask)
        if known is None:
            known = self._counts[mask] = self._marked(mask).count(_MEMBER)
        return known

    def count_text(self, text: str) -> int:
        """Return the number of places where a text occurs; at least, if it may overlap itself."""
        count = self._text.count(text)
        return count * len(text) if text[0] in text[1:] else count


def _longest_run(marked: bytes) -> int:
    """Find the longest run of members: short ones by looking for it, long ones by cutting at what is between."""
    for length in (1, 2, 4, 8, 16):
        if _MEMBER * length not in marked:
            return length - 1
    if marked.count(b"\0") > _MANY:
        return max(map(len, _LONG_RUN.findall(marked)))
    return max(map(len, marked.split(b"\0")))


_cache: LRUCache[str, TextMeasures] = LRUCache(MEASURES_CACHE_SIZE)


def measure(text: str) -> TextMeasures:
    """Return the measures of a text; those of the last few texts are kept, as many expressions run on one text."""
    return _cache.get_or_make(text, lambda: TextMeasures(text))
