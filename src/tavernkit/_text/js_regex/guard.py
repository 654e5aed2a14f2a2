"""Keeps regular expressions within their time limit: certainly fast calls run directly, others in a worker process."""

from __future__ import annotations

import hashlib
import re
import struct
import threading
import time
from bisect import bisect
from collections.abc import Sequence
from functools import lru_cache
from math import inf
from pathlib import Path

from tavernkit._text.js_regex import limits
from tavernkit._text.js_regex.alphabet import ASCII, ASCII_SIZE, Alphabet
from tavernkit._text.js_regex.cost import AnyText, CostModel
from tavernkit._text.js_regex.match import Engine, Found, FoundSpans
from tavernkit._text.js_regex.nodes import Pattern
from tavernkit._text.js_regex.subject import SeenText, Subject
from tavernkit._text.js_regex.worker import REQUEST
from tavernkit._values import LRUCache
from tavernkit._workers import Job

_given_up: LRUCache[tuple[str, str, bytes], tuple[float, float]] = LRUCache(limits.GIVEN_UP_CACHE_SIZE)
_MOST_DOUBLINGS = 20
JOB = Job(Path(__file__).with_name("worker.py"))
"""The job of worker processes for regular expressions."""


class GaveUpError(Exception):
    """A search was stopped; the message says why."""


class Guard:
    """Decides for one pattern which calls are certainly fast: first by length alone, then by a closer look."""

    __slots__ = ("_from_one_place", "_judged", "_model", "_pattern", "known")

    def __init__(self, pattern: Pattern, *, judged: bool = True) -> None:
        self._pattern = pattern
        self._judged = judged
        self._model: CostModel | None = None
        self._from_one_place: dict[int, float] = {}
        self.known = KnownQuick(length=0 if judged else -1)
        """The texts that are known to be fast."""

    def is_known_quick(self, text: str, timeout: float) -> bool:
        """Return True if ``is_quick()`` is already known to be true; this costs almost nothing."""
        if timeout >= limits.DEFAULT_TIMEOUT and (text is self.known.text or len(text) <= self.known.length):
            return True
        measures = known_measures(text)
        return measures is not None and measures.bounds.get(self.known, inf) <= timeout * limits.STEPS_PER_SECOND

    def is_quick(self, text: str, timeout: float) -> bool:
        """Return True if the pattern certainly takes no longer than ``timeout`` seconds on a text."""
        if not self._judged:
            return False
        if self._model is None:
            self._model = CostModel(self._pattern)
            self.known.length = _safe_length(self._model)
        if self.is_known_quick(text, timeout):
            return True
        allowed = timeout * limits.STEPS_PER_SECOND
        if (len(text) + 1) * self._model.head > allowed:
            return False
        measures = measure(text)
        steps = self._steps_by_starts(self._model, text)
        if steps > allowed:
            steps = self._model.steps(PatternMeasures(measures, self._model.alphabet))
        if steps > allowed:
            return False
        measures.keep_bound(self.known, steps)
        return True

    def _steps_by_starts(self, model: CostModel, text: str) -> float:
        """Bound the steps by counting the characters that a match can begin with, if they are few."""
        if not model.first_characters:
            return inf
        starts = sum([text.count(character) for character in model.first_characters])
        return (len(text) + 1) * model.head + starts * self._steps_from_one_place(model, len(text))

    def _steps_from_one_place(self, model: CostModel, length: int) -> float:
        doublings = length.bit_length()
        steps = self._from_one_place.get(doublings)
        if steps is None:
            steps = self._from_one_place[doublings] = model.steps_from_one_place(AnyText(1 << doublings))
        return steps


def _safe_length(model: CostModel) -> int:
    """Return a length up to which the pattern is fast on any text: a power of two, or None."""
    allowed = limits.DEFAULT_TIMEOUT * limits.STEPS_PER_SECOND
    doublings = bisect(range(_MOST_DOUBLINGS), 0, key=lambda power: model.steps(AnyText(1 << power)) > allowed)
    return 1 << (doublings - 1) if doublings else 0


def run_guarded(engine: Engine, text: str, timeout: float, *, everything: bool) -> Sequence[Found]:
    """Find the first match, or all, in a worker process that may take ``timeout`` seconds of processor time.

    Raises ``GaveUpError``.
    """
    data = text.encode()
    key = (engine.source, engine.flags, hashlib.blake2b(data, digest_size=16).digest())
    known = _given_up.get(key)
    budget = f"{timeout * 1000:g} ms"
    if known is not None and known[0] >= timeout and time.monotonic() - known[1] < limits.GIVEN_UP_SECONDS:
        raise GaveUpError(f"took longer than {budget}")
    from tavernkit._workers import JobFailedError, OutOfTimeError, StuckError, WorkerError
    from tavernkit._workers.pool import pool
    from tavernkit.errors import note_degraded

    try:
        reply = pool.run(JOB, _payload(engine, data, everything=everything), timeout)
    except OutOfTimeError:
        _given_up.put(key, (timeout, time.monotonic()))
        raise GaveUpError(f"took longer than {budget}") from None
    except StuckError as error:
        note_degraded(f"a regex {error}")
        raise GaveUpError(f"was stopped because the machine is too busy ({error})") from None
    except (WorkerError, JobFailedError) as error:
        raise GaveUpError(f"could not be run safely: {error}") from error
    offsets = struct.unpack(f"<{len(reply) // 8}q", reply)
    width = 2 * (engine.group_count + 1)
    return [FoundSpans(offsets[at : at + width]) for at in range(0, len(offsets), width)]


def _payload(engine: Engine, text: bytes, *, everything: bool) -> bytes:
    source, flags = engine.source.encode(), engine.flags.encode()
    sizes = len(source), len(flags), len(text)
    return REQUEST.pack(*sizes, engine.first_group, engine.group_count + 1, everything) + source + flags + text


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
        elif len(searched) <= limits.KEPT_LENGTH:
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
            if len(self.bounds) >= limits.BOUNDS_CACHE_SIZE:
                self.forget_bounds()
            self.bounds[pattern] = steps
            if steps <= limits.DEFAULT_TIMEOUT * limits.STEPS_PER_SECOND and _measured.get(self.text) is self:
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
            while len(_measured) > limits.MEASURES_CACHE_SIZE or sum(map(len, _measured)) > limits.MEASURED_LENGTH:
                _measured.pop(next(iter(_measured))).forget_bounds()
    return known
