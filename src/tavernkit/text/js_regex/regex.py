"""Compiled JavaScript regular expressions."""

from __future__ import annotations

import re
from collections.abc import Callable

import regress

from tavernkit.errors import Warn
from tavernkit.text.js_regex.errors import JSRegexSyntaxError
from tavernkit.text.js_regex.flags import check_flags
from tavernkit.text.js_regex.match import JSMatch, Span
from tavernkit.text.js_regex.subject import Subject
from tavernkit.text.js_regex.template import expand
from tavernkit.values import LRUCache

DEFAULT_TIMEOUT = 0.1
"""Seconds a call may take before it counts as no match."""

COMPILE_CACHE_SIZE = 2048
"""How many compiled expressions are kept."""

_SKIP = re.compile(r"\\[\s\S]|\[(?:[^\\\]]|\\[\s\S])*\]|(\((?:\?<([^=!>][^>]*)>|(?!\?)))")
_cache: LRUCache[tuple[str, str], JSRegex] = LRUCache(COMPILE_CACHE_SIZE)


class JSRegex:
    """A compiled regular expression: immutable and safe to share between threads.

    Unlike JavaScript's it has no ``lastIndex``: pass ``start``. A call that runs longer than ``timeout`` seconds is
    given up, reported through ``warn`` and counts as no match.
    """

    __slots__ = ("_engine", "_group_count", "_names", "_unicode", "flags", "global_", "source", "sticky")

    def __init__(self, source: str, flags: str = "") -> None:
        self.source = source
        self.flags = check_flags(flags)
        self.global_ = "g" in flags
        self.sticky = "y" in flags
        self._unicode = "u" in flags or "v" in flags
        self._group_count = 0
        names: dict[str, tuple[int, ...]] = {}
        for found in _SKIP.finditer(source):
            if found[1]:
                self._group_count += 1
                if found[2]:
                    names[found[2]] = (*names.get(found[2], ()), self._group_count)
        self._names = names
        try:
            self._engine = regress.Regex(source, "".join(flag for flag in self.flags if flag in "imsuv"))
        except regress.RegressError as error:
            raise JSRegexSyntaxError(f"Invalid regular expression: /{source}/{flags}: {error}") from None

    @staticmethod
    def compile(source: str, flags: str = "") -> JSRegex:
        """Compile a pattern, or return the compiled one from the cache; raises :class:`JSRegexSyntaxError`."""
        return _cache.get_or_make((source, flags), lambda: JSRegex(source, flags))

    def search(
        self, text: str, start: int = 0, *, timeout: float | None = DEFAULT_TIMEOUT, warn: Warn | None = None
    ) -> JSMatch | None:
        """Find the first match at or after an offset (a sticky expression: exactly at it)."""
        for match in self._matches(text, timeout, warn):
            if match.start >= start:
                return match if not self.sticky or match.start == start else None
        return None

    def test(self, text: str, *, timeout: float | None = DEFAULT_TIMEOUT, warn: Warn | None = None) -> bool:
        """Tell whether there is a match."""
        return self.search(text, timeout=timeout, warn=warn) is not None

    def find_all(
        self, text: str, *, timeout: float | None = DEFAULT_TIMEOUT, warn: Warn | None = None
    ) -> list[JSMatch]:
        """Find all matches, one after the other (``matchAll``), with or without the ``g`` flag."""
        return self._matches(text, timeout, warn)

    def replace(
        self,
        text: str,
        replacement: str | Callable[[JSMatch], str],
        *,
        timeout: float | None = DEFAULT_TIMEOUT,
        warn: Warn | None = None,
    ) -> str:
        """Replace the first match, or all with the ``g`` flag (``String#replace``)."""
        matches = self._matches(text, timeout, warn)
        if not self.global_:
            matches = matches[:1]
        if not matches:
            return text
        subject = matches[0].subject
        pieces: list[str] = []
        at = 0
        for match in matches:
            first, last = match.engine_span
            pieces.append(subject.cut(at, first))
            if isinstance(replacement, str):
                pieces.append(expand(replacement, match, named=bool(self._names)))
            else:
                pieces.append(replacement(match))
            at = last
        pieces.append(subject.cut(at, len(subject.engine_text)))
        return "".join(pieces)

    def split(
        self,
        text: str,
        limit: int | None = None,
        *,
        timeout: float | None = DEFAULT_TIMEOUT,
        warn: Warn | None = None,
    ) -> list[str | None]:
        """Split at the matches; what groups captured comes between the parts (``String#split``)."""
        matches = self._matches(text, timeout, warn)
        if not text:
            return [] if matches else [text]
        subject = Subject(text, unicode=self._unicode)
        size = len(subject.engine_text)
        parts: list[str | None] = []
        at = 0
        for match in matches:
            first, last = match.engine_span
            if first >= size or last == at:
                continue
            parts.append(subject.cut(at, first))
            parts += match.groups
            at = last
        parts.append(subject.cut(at, size))
        return parts if limit is None else parts[:limit]

    def _matches(self, text: str, timeout: float | None, warn: Warn | None) -> list[JSMatch]:
        del timeout, warn
        subject = Subject(text, unicode=self._unicode)
        engine_text = subject.engine_text
        encoded = None if engine_text.isascii() else engine_text.encode()
        results: list[JSMatch] = []
        for found in self._engine.find_iter(engine_text) or ():
            raw: list[Span | None] = []
            for number in range(self._group_count + 1):
                part = found.group(number)
                if part is None:
                    raw.append(None)
                elif encoded is None:
                    raw.append((part.start, part.stop))
                else:
                    raw.append((len(encoded[: part.start].decode()), len(encoded[: part.stop].decode())))
            results.append(JSMatch(subject, raw, self._names))
        return results

    def __repr__(self) -> str:
        return f"JSRegex(/{self.source}/{self.flags})"
