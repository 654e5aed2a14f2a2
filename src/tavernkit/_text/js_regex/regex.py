"""Compiled JavaScript regular expressions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import regress

from tavernkit._text.js_regex.analysis import (
    begins_with_characters,
    counts_characters,
    ignores_case,
    lookback,
    needs_of,
)
from tavernkit._text.js_regex.emit import emit, emit_from, emit_inner, engine_flags
from tavernkit._text.js_regex.limits import (
    COMPILE_CACHE_SIZE,
    DEFAULT_TIMEOUT,
    LARGE_CACHE_SIZE,
    LARGE_LENGTH,
    MAX_JUDGED_LENGTH,
    MAX_JUDGED_PARTS,
    MAX_PROPERTIES,
)
from tavernkit._text.js_regex.match import (
    Engine,
    Found,
    JSMatch,
    compile_template,
    found_at,
    make_match,
    replace_by_template,
    replace_each,
)
from tavernkit._text.js_regex.scanner import check_flags, invalid, is_string_property
from tavernkit._text.js_regex.subject import Subject, engine_text, subject_of, wide_text
from tavernkit._text.js_regex.syntax import parse_pattern
from tavernkit._values import LRUCache
from tavernkit.errors import Warn

_MAX_SHOWN = 80
_SHORT = 500
"""Caching a text of this length takes longer than checking it again."""
_cache: LRUCache[tuple[str, str], JSRegex] = LRUCache(COMPILE_CACHE_SIZE)
_large: LRUCache[tuple[str, str], JSRegex] = LRUCache(LARGE_CACHE_SIZE)


class JSRegex:
    """A compiled regular expression: immutable and safe to share between threads.

    Unlike JavaScript's it has no ``lastIndex``: pass ``start``. A call that takes more than ``timeout`` seconds of
    processor time is stopped, reported through ``warn`` and counts as no match; ``None`` means no limit.
    """

    __slots__ = (
        "_engine",
        "_fold",
        "_guard",
        "_heavy",
        "_inner",
        "_last_from",
        "_lookback",
        "_needs",
        "_pattern",
        "_quick",
        "_regex",
        "_whole",
        "flags",
        "global_",
        "source",
        "sticky",
    )

    def __init__(self, source: str, flags: str = "") -> None:
        # The cost model is slow to import, and most builds use no expressions.
        from tavernkit._text.js_regex.alphabet import check_properties
        from tavernkit._text.js_regex.guard import Guard, KnownQuick

        self.source = source
        self.flags = check_flags(flags)
        self.global_ = "g" in flags
        self.sticky = "y" in flags
        self._pattern = parse_pattern(source, self.flags)
        properties = self._pattern.properties
        self._heavy = len(properties) > MAX_PROPERTIES or any(map(is_string_property, properties))
        self._whole = counts_characters(self._pattern)
        self._needs = () if begins_with_characters(self._pattern.root) else needs_of(self._pattern)
        self._fold = ignores_case(self._pattern)
        self._lookback = lookback(self._pattern.root)
        judged = len(source) <= MAX_JUDGED_LENGTH and self._pattern.part_count <= MAX_JUDGED_PARTS
        judged = judged and not self._heavy
        self._guard = Guard(self._pattern, judged=judged)
        self._quick = KnownQuick(length=-1) if self.sticky else self._guard.known
        try:
            if self._heavy:
                check_properties(self._pattern.properties)
            self._engine = self._compile_engine(emit(self._pattern), first_group=0)
        except regress.RegressError as error:
            raise invalid(source, self.flags, error) from None
        self._regex = self._engine.regex
        self._inner = ""
        self._last_from = -1, self._engine

    @staticmethod
    def compile(source: str, flags: str = "") -> JSRegex:
        """Compile a pattern, or return the compiled one from the cache; raises ``JSRegexSyntaxError``."""
        cache = _cache if len(source) <= LARGE_LENGTH else _large
        return cache.get_or_make((source, flags), lambda: JSRegex(source, flags))

    def __reduce__(self) -> tuple[Callable[[str, str], JSRegex], tuple[str, str]]:
        return JSRegex.compile, (self.source, self.flags)

    # The next two often end at the first characters: an extra call, or keyword-only arguments, would double the time.

    def search(
        self, text: str, start: int = 0, timeout: float | None = DEFAULT_TIMEOUT, warn: Warn | None = None
    ) -> JSMatch | None:
        """Find the first match at or after an offset (a sticky expression: exactly at it)."""
        quick = self._quick
        seen = quick.seen
        if text is seen.text and timeout == DEFAULT_TIMEOUT and not start:
            subject = seen.subject
            found = self._regex.find(seen.searched)
        else:
            subject = searched = text
            if not text.isascii():
                subject = wide_text(text, self._whole)
                searched = subject.engine_text
            size = len(searched)
            if size <= quick.length and timeout == DEFAULT_TIMEOUT and not start:
                found = self._regex.find(searched)
                if size > _SHORT:
                    quick.note(text, subject, searched)
            elif start > len(text):
                return None
            else:
                found = self._find_first(subject, start, timeout, warn)
                if searched is quick.text:
                    quick.keep(text, subject, searched)
        if found is None:
            return None
        match = JSMatch()
        match.subject = subject
        match.found = found
        match.pattern = self._pattern
        return match

    def test(self, text: str, timeout: float | None = DEFAULT_TIMEOUT, warn: Warn | None = None) -> bool:
        """Return True if there is a match."""
        quick = self._quick
        seen = quick.seen
        if text is seen.text and timeout == DEFAULT_TIMEOUT:
            return self._regex.find(seen.searched) is not None
        if len(text) <= quick.length and timeout == DEFAULT_TIMEOUT and text.isascii():
            return self._regex.find(text) is not None
        return self.search(text, 0, timeout, warn) is not None

    def find_all(
        self, text: str, *, timeout: float | None = DEFAULT_TIMEOUT, warn: Warn | None = None
    ) -> list[JSMatch]:
        """Find all matches (``matchAll``), with or without the ``g`` flag."""
        subject = subject_of(text, whole=self._whole)
        found = self._find_all(subject, timeout, warn)
        pattern = self._pattern
        matches: list[JSMatch] = []
        for one in found:
            match = JSMatch()
            match.subject = subject
            match.found = one
            match.pattern = pattern
            matches.append(match)
        return matches

    def replace(
        self,
        text: str,
        replacement: str | Callable[[JSMatch], str],
        *,
        timeout: float | None = DEFAULT_TIMEOUT,
        warn: Warn | None = None,
    ) -> str:
        """Replace the first match, or all with the ``g`` flag (``String#replace``)."""
        subject = subject_of(text, whole=self._whole)
        if self.global_:
            found = self._find_all(subject, timeout, warn)
        else:
            first = self._find_first(subject, 0, timeout, warn)
            found = () if first is None else (first,)
        if not found:
            return text
        if not isinstance(replacement, str):
            call, pattern = replacement, self._pattern
            return replace_each(subject, found, lambda one: call(make_match(subject, one, pattern)))
        template = compile_template(replacement, self._pattern.group_count, self._pattern.names)
        replaced = replace_by_template(subject, found, template)
        if replaced is None:
            if warn is not None:
                warn(f"the regex {self._excerpt()} would make a text too long: it is left as it was")
            return text
        return replaced

    def split(
        self,
        text: str,
        limit: int | None = None,
        *,
        timeout: float | None = DEFAULT_TIMEOUT,
        warn: Warn | None = None,
    ) -> list[str | None]:
        """Split at the matches; captured groups come between the parts (``String#split``)."""
        subject = subject_of(text, whole=self._whole)
        found = self._find_everywhere(subject, timeout, warn)
        if not text:
            return [] if found else [text]
        parts: list[str | None] = []
        at = 0
        for one in found:
            whole = one.range()
            if whole.start < len(subject) and whole.stop != at:
                parts += [subject[at : whole.start], *make_match(subject, one, self._pattern).groups]
                at = whole.stop
        parts.append(subject[at:])
        return parts if limit is None else parts[:limit]

    def _lacks_needs(self, subject: Subject) -> bool:
        """Return True if a text certainly has no match; much faster than the engine, which tries every position."""
        if not self._needs:
            return False
        if isinstance(subject, str):
            text = subject.lower() if self._fold else subject
        else:
            text = subject.lowered if self._fold else subject.engine_text
        for need in self._needs:  # noqa: SIM110  # any() would call a generator for each
            if need in text:
                return False
        return True

    def _find_first(self, subject: Subject, start: int, timeout: float | None, warn: Warn | None) -> Found | None:
        if self._lacks_needs(subject):
            return None
        if start > 0 or self.sticky:
            return self._find_from(subject, max(start, 0), timeout, warn)
        return self._find(self._engine, engine_text(subject), timeout, warn)

    def _find_all(self, subject: Subject, timeout: float | None, warn: Warn | None) -> Sequence[Found]:
        found = self._find_everywhere(subject, timeout, warn)
        return _adjacent(found, subject) if self.sticky else found

    def _find_everywhere(self, subject: Subject, timeout: float | None, warn: Warn | None) -> Sequence[Found]:
        if self._lacks_needs(subject):
            return ()
        text = engine_text(subject)
        guard = self._guard
        if timeout is None or guard.is_known_quick(text, timeout) or guard.is_quick(text, timeout):
            return self._engine.find_all(text)
        return self._find_guarded(self._engine, text, timeout, warn, everything=True)

    def _find(self, engine: Engine, text: str, timeout: float | None, warn: Warn | None) -> Found | None:
        if timeout is None or self._guard.is_known_quick(text, timeout):
            return engine.find(text)
        if self._guard.is_quick(text, timeout):
            return engine.find(text)
        found = self._find_guarded(engine, text, timeout, warn, everything=False)
        return found[0] if found else None

    def _find_guarded(
        self, engine: Engine, text: str, timeout: float, warn: Warn | None, *, everything: bool
    ) -> Sequence[Found]:
        from tavernkit._text.js_regex.guard import GaveUpError, run_guarded

        try:
            return run_guarded(engine, text, timeout, everything=everything)
        except GaveUpError as reason:
            if warn is not None:
                warn(f"the regex {self._excerpt()} {reason}: it counts as no match")
            return ()

    def _find_from(self, subject: Subject, start: int, timeout: float | None, warn: Warn | None) -> Found | None:
        """Search from the middle; of the text before, only what the pattern may look back at is kept."""
        offset = start if isinstance(subject, str) else subject.counted_offset(start)
        kept = min(self._lookback, offset)
        engine = self._engine
        if kept or self.sticky:
            engine = self._engine_from(kept)
        text = engine_text(subject)
        found = self._find(engine, text[offset - kept :], timeout, warn)
        return None if found is None else found_at(found, self._pattern.group_count, text[: offset - kept])

    def _engine_from(self, kept: int) -> Engine:
        known, engine = self._last_from
        if known != kept:
            if not self._inner:
                self._inner = emit_inner(self._pattern)
            engine = self._compile_engine(emit_from(self._inner, kept, sticky=self.sticky), first_group=1)
            self._last_from = kept, engine
        return engine

    def _compile_engine(self, source: str, *, first_group: int) -> Engine:
        flags, count = engine_flags(self._pattern), self._pattern.group_count
        return Engine.compile(source, flags, first_group=first_group, group_count=count, heavy=self._heavy)

    def _excerpt(self) -> str:
        source = self.source if len(self.source) <= _MAX_SHOWN else f"{self.source[:_MAX_SHOWN]}…"
        return f"/{source}/{self.flags}"

    def __repr__(self) -> str:
        return f"JSRegex({self._excerpt()})"


def _adjacent(found: Sequence[Found], subject: Subject) -> list[Found]:
    """Keep the matches of a sticky expression: each must begin where the previous one ended."""
    kept: list[Found] = []
    expected = 0
    for one in found:
        whole = one.range()
        start, end = whole.start, whole.stop
        if not isinstance(subject, str):
            start, end = subject.count(start), subject.count(end)
        if start != expected:
            break
        kept.append(one)
        expected = end if end > start else end + 1
    return kept


def warm_up() -> None:
    """Start the worker processes for slow patterns; returns at once.

    Starting one takes about 20 ms, which the first call would have to wait for. They end after a minute without work,
    and can be started again.
    """
    from tavernkit._text.js_regex.guard import JOB
    from tavernkit._workers.pool import pool

    pool.expect(JOB)
    pool.warm_up()
