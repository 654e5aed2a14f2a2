"""Measuring a text for the cost model: sets of characters counted in bulk."""

from __future__ import annotations

import re
import threading
from functools import lru_cache

from tavernkit._text.js_regex.alphabet import ASCII, ASCII_SIZE, Alphabet
from tavernkit._text.js_regex.limits import (
    BOUNDS_CACHE_SIZE,
    DEFAULT_TIMEOUT,
    KEPT_LENGTH,
    MEASURED_LENGTH,
    MEASURES_CACHE_SIZE,
    STEPS_PER_SECOND,
)
from tavernkit._text.js_regex.subject import SeenText, Subject

_MEMBER = b"\x01"
_QUESTION_MARK = 1 << ord("?")
_MANY = 2000
_LONG_RUN = re.compile(rb"\x01{16,}")
_lock = threading.Lock()


@lru_cache(maxsize=512)
def _table(ascii_mask: int) -> bytes:
    """Return the table that turns members of a set into 1 and all others into 0."""
    return bytes((ascii_mask >> code) & 1 for code in range(ASCII_SIZE)).ljust(256, b"\0")


_NOTHING = SeenText(str(b"nothing", "ascii"), "", "")
"""A unique object, so that no text can be identical to it."""


class KnownQuick:
    """Texts on which a pattern is known to be fast, with the default time limit."""

    __slots__ = ("last", "length", "seen", "text")

    def __init__(self, length: int) -> None:
        self.length = length
        """Any text up to this length."""
        self.text: str | None = None
        """The last text that was checked, as long as its measures are cached."""
        self.seen = _NOTHING
        """A fast text with all its forms: the same, or one that is short enough to keep."""
        self.last: str | None = None
        """A text that is fast because of its length."""

    def keep(self, text: str, subject: Subject, searched: str) -> None:
        """Keep all forms of the last checked text."""
        with _lock:
            if self.text is searched:
                self.seen = SeenText(text, subject, searched)

    def note(self, text: str, subject: Subject, searched: str) -> None:
        """Record a text that is fast because of its length: the second time, all its forms are kept."""
        if text is self.last:
            self.seen = SeenText(text, subject, searched)
        elif len(searched) <= KEPT_LENGTH:
            self.last = text


class TextMeasures:
    """The measures of one text for sets of any pattern; computed on demand."""

    __slots__ = ("_counts", "_data", "_runs", "bounds", "text", "wide")

    def __init__(self, text: str) -> None:
        self.text = text
        self.wide = not text.isascii()
        """True if there are non-ASCII characters; in the data below they are all ``?``."""
        self.bounds: dict[KnownQuick, float] = {}
        """Upper bounds of steps on this text, by pattern."""
        self._data: bytes | None = None
        self._runs: dict[int, int] = {}
        self._counts: dict[int, int] = {}

    def keep_bound(self, pattern: KnownQuick, steps: float) -> None:
        """Record the bound of a pattern."""
        with _lock:
            if len(self.bounds) >= BOUNDS_CACHE_SIZE:
                self.forget_bounds()
            self.bounds[pattern] = steps
            if steps <= DEFAULT_TIMEOUT * STEPS_PER_SECOND and _measured.get(self.text) is self:
                pattern.text = self.text
                pattern.seen = _NOTHING

    def forget_bounds(self) -> None:
        """Drop the bounds of patterns, so that none of them keeps the text alive."""
        forgotten, self.bounds = self.bounds, {}
        for pattern in forgotten:
            if pattern.text is self.text:
                pattern.text = None
                pattern.seen = _NOTHING

    def _mark(self, ascii_mask: int) -> bytes:
        """Return the text with 1 for a member of a set and 0 for any other character."""
        if self._data is None:
            self._data = self.text.encode("ascii", "replace")
        return self._data.translate(_table(ascii_mask))

    def run(self, ascii_mask: int) -> int:
        """Return the length of the longest run of a set's characters, or a little more."""
        known = self._runs.get(ascii_mask)
        if known is None:
            known = self._runs[ascii_mask] = min(_longest_run(self._mark(ascii_mask)), len(self.text))
        return known

    def count(self, ascii_mask: int) -> int:
        """Return the number of a set's characters."""
        known = self._counts.get(ascii_mask)
        if known is None:
            known = self._counts[ascii_mask] = self._mark(ascii_mask).count(_MEMBER)
        return known


class PatternMeasures:
    """The measures of a text for the sets of one pattern."""

    __slots__ = ("_alphabet", "_pieces", "_text", "length")

    def __init__(self, text: TextMeasures, alphabet: Alphabet) -> None:
        self.length = len(text.text)
        self._text = text
        self._alphabet = alphabet
        self._pieces: dict[int, tuple[int, int]] = {}

    def run(self, mask: int) -> int:
        """Return an upper bound for the longest run of a set's characters."""
        bulk = self._bulk(mask)
        return self._exact(mask)[0] if bulk is None else self._text.run(bulk)

    def count(self, mask: int) -> int:
        """Return an upper bound for the number of a set's characters."""
        bulk = self._bulk(mask)
        return self._exact(mask)[1] if bulk is None else self._text.count(bulk)

    def _bulk(self, mask: int) -> int | None:
        """Return a set of ASCII characters with the same measures, unless the pattern distinguishes wide characters."""
        wide = mask & self._alphabet.wide if self._text.wide else 0
        if not wide:
            return mask & ASCII
        return mask & ASCII | _QUESTION_MARK if wide == self._alphabet.wide else None

    def _exact(self, mask: int) -> tuple[int, int]:
        known = self._pieces.get(mask)
        if known is None:
            lengths = [
                len(piece) for piece in _class_regex(tuple(self._alphabet.ranges(mask))).findall(self._text.text)
            ]
            known = self._pieces[mask] = (max(lengths, default=0), sum(lengths))
        return known

    def count_text(self, text: str) -> int:
        """Return an upper bound for the number of occurrences of a text."""
        count = self._text.text.count(text)
        return count * len(text) if text[0] in text[1:] else count


@lru_cache(maxsize=512)
def _class_regex(ranges: tuple[tuple[int, int], ...]) -> re.Pattern[str]:
    inside = "".join([f"\\U{first:08x}-\\U{last:08x}" for first, last in ranges])
    return re.compile(f"[{inside}]+")


def _longest_run(marked: bytes) -> int:
    """Find the longest run of members: short ones by searching, long ones by splitting."""
    for length in (1, 2, 4, 8, 16):
        if _MEMBER * length not in marked:
            return length - 1
    if marked.count(b"\0") > _MANY:
        return max(map(len, _LONG_RUN.findall(marked)))
    return max(map(len, marked.split(b"\0")))


# Needed in every call on a longer text, so even a lock would be noticeable: only changes use one.
_measured: dict[str, TextMeasures] = {}


def known_measures(text: str) -> TextMeasures | None:
    """Return the measures of a text if they are cached."""
    return _measured.get(text)


def measure(text: str) -> TextMeasures:
    """Return the measures of a text; cached for the last few texts, because many expressions run on one text."""
    known = _measured.get(text)
    if known is None:
        known = TextMeasures(text)
        with _lock:
            _measured[text] = known
            while len(_measured) > MEASURES_CACHE_SIZE or sum(map(len, _measured)) > MEASURED_LENGTH:
                _measured.pop(next(iter(_measured))).forget_bounds()
    return known
