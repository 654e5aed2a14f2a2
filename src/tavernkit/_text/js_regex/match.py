"""Matches of regular expressions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import regress

from tavernkit._dataclass import dataclass
from tavernkit._text.js_regex.emit import stand_in_source
from tavernkit._text.js_regex.nodes import Pattern
from tavernkit._text.js_regex.subject import Subject

Span = tuple[int, int]
"""Start and end of a part of the text."""

Names = Mapping[str, tuple[int, ...]]
"""The groups of each name: more than one if alternatives share a name."""


class Found(Protocol):
    """A match as the engine reports it: the byte offsets of its groups; group 0 is the whole match."""

    def range(self) -> slice:
        """Return the offsets of the match."""
        ...

    def group(self, idx: int, /) -> slice | None:
        """Return where a group is; None if it did not participate."""
        ...


class FoundSpans:
    """A match by the offsets of its groups: two numbers per group, -1 for a group that did not participate."""

    __slots__ = ("_offsets",)

    def __init__(self, offsets: Sequence[int]) -> None:
        self._offsets = offsets

    def range(self) -> slice:
        """Return the offsets of the match."""
        return slice(self._offsets[0], self._offsets[1])

    def group(self, idx: int, /) -> slice | None:
        """Return where a group is; None if it did not participate."""
        start = self._offsets[2 * idx]
        return None if start < 0 else slice(start, self._offsets[2 * idx + 1])


def offsets_of(found: Found, first_group: int, group_count: int) -> list[int]:
    """List the offsets of the whole match and its groups."""
    offsets: list[int] = []
    for number in range(first_group, first_group + group_count + 1):
        span = found.group(number)
        offsets += (-1, -1) if span is None else (span.start, span.stop)
    return offsets


def found_at(found: Found, group_count: int, before: str) -> Found:
    """Shift a match in the rest of a text to its position in the whole."""
    shift = len(before.encode())
    return FoundSpans([offset if offset < 0 else offset + shift for offset in offsets_of(found, 0, group_count)])


class MatchParts:
    """The fields of a match. There is no ``__init__``: calling it would take as long as a short search."""

    __slots__ = ("found", "pattern", "subject")

    subject: Subject
    found: Found
    pattern: Pattern


class JSMatch(MatchParts):
    """One match. Offsets are those of the Python text; ``utf16_start`` and ``utf16_end`` are JavaScript's.

    Without the ``u`` or ``v`` flag a match may begin or end inside a character that is two units in JavaScript;
    its texts then have lone surrogates, and its Python offsets are those of that character.
    """

    __slots__ = ()

    @property
    def input(self) -> str:
        """The whole text that was searched."""
        return self.subject if isinstance(self.subject, str) else self.subject.text

    def replaced(self, template: str) -> str:
        """Return the whole text with this match replaced by a template (``$1``, ``$&``, …)."""
        from tavernkit._text.js_regex.template import compile_template, replace_by_template

        compiled = compile_template(template, self.pattern.group_count, self.pattern.names)
        replaced = replace_by_template(self.subject, [self.found], compiled)
        return self.input if replaced is None else replaced

    @property
    def start(self) -> int:
        """Where the match begins."""
        return self._python_offset(self.found.range().start)

    @property
    def end(self) -> int:
        """Where the match ends."""
        return self._python_offset(self.found.range().stop)

    @property
    def utf16_start(self) -> int:
        """Where the match begins in UTF-16 code units (``match.index``)."""
        return self._utf16_offset(self.found.range().start)

    @property
    def utf16_end(self) -> int:
        """Where the match ends in UTF-16 code units (``lastIndex`` after it)."""
        return self._utf16_offset(self.found.range().stop)

    def _python_offset(self, offset: int) -> int:
        return offset if isinstance(self.subject, str) else self.subject.python_offset(offset)

    def _utf16_offset(self, offset: int) -> int:
        return offset if isinstance(self.subject, str) else self.subject.utf16_offset(offset)

    @property
    def text(self) -> str:
        """What was matched (``match[0]``)."""
        return self.subject[self.found.range()]

    def group(self, number: int) -> str | None:
        """Return what a group captured; 0 is the whole match. ``None`` for a group that did not participate."""
        span = self.found.group(number)
        return None if span is None else self.subject[span]

    @property
    def groups(self) -> tuple[str | None, ...]:
        """What the groups captured, from group 1; ``None`` for groups that did not participate."""
        return tuple([self.group(number) for number in range(1, self.pattern.group_count + 1)])

    @property
    def named(self) -> dict[str, str | None]:
        """What the named groups captured."""
        return {name: self.named_group(name) for name in self.pattern.names}

    def named_group(self, name: str) -> str | None:
        """Return what a named group captured; None if it did not participate or does not exist."""
        for number in self.pattern.names.get(name, ()):
            captured = self.group(number)
            if captured is not None:
                return captured
        return None

    @property
    def spans(self) -> tuple[Span | None, ...]:
        """Where the match (first) and its groups are in the Python text."""
        return tuple([self._span(number) for number in range(self.pattern.group_count + 1)])

    def _span(self, number: int) -> Span | None:
        span = self.found.group(number)
        if span is None:
            return None
        return self._python_offset(span.start), self._python_offset(span.stop)

    def __repr__(self) -> str:
        return f"JSMatch({self.start}, {self.end}, {self.text!r}, groups={self.groups!r})"


def make_match(subject: Subject, found: Found, pattern: Pattern) -> JSMatch:
    """Make a match from its parts."""
    match = JSMatch()
    match.subject = subject
    match.found = found
    match.pattern = pattern
    return match


@dataclass(frozen=True, slots=True)
class Engine:
    """A pattern compiled for the engine. Its ``first_group`` is our whole match, the other groups follow.

    A ``heavy`` pattern is too expensive to compile in this process: its ``regex`` is a simpler pattern, which only
    proves that it can be compiled, and searches run in a worker process.
    """

    source: str
    flags: str
    first_group: int
    group_count: int
    regex: regress.Regex
    heavy: bool

    @classmethod
    def compile(cls, source: str, flags: str, *, first_group: int, group_count: int, heavy: bool = False) -> Engine:
        """Compile a pattern; raises ``regress.RegressError``."""
        regex = regress.Regex(stand_in_source(source) if heavy else source, flags)
        return cls(source, flags, first_group, group_count, regex, heavy)

    def find(self, text: str) -> Found | None:
        """Find the first match, without a time limit."""
        found = self._exact().find(text)
        return (
            found
            if found is None or not self.first_group
            else FoundSpans(offsets_of(found, self.first_group, self.group_count))
        )

    def find_all(self, text: str) -> Sequence[Found]:
        """Find all matches, without a time limit."""
        return list(self._exact().find_iter(text) or ())

    def _exact(self) -> regress.Regex:
        return regress.Regex(self.source, self.flags) if self.heavy else self.regex
