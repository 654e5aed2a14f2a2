"""Matches of regular expressions."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import AnyStr, Protocol, TypeAlias

import regress

from tavernkit._dataclass import dataclass
from tavernkit._text.js_regex.emit import stand_in_source
from tavernkit._text.js_regex.limits import MAX_REPLACED_LENGTH
from tavernkit._text.js_regex.nodes import Pattern
from tavernkit._text.js_regex.subject import Subject
from tavernkit._text.js_values.strings import join_surrogates
from tavernkit._values import LRUCache

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


Part: TypeAlias = "str | int | tuple[int, ...]"
"""Text, the number of a group, or the groups of a name (the one that participated counts)."""

_BEFORE, _AFTER = -1, -2
_SYMBOLS: dict[str, Part] = {"$": "$", "&": 0, "`": _BEFORE, "'": _AFTER}
_TOKEN = re.compile(r"\$(?:([$&`'])|([0-9]{1,2}))")
_TOKEN_OR_NAME = re.compile(rf"{_TOKEN.pattern[:-1]}|<([^>]*)>)")
_CACHE_SIZE = 512


@dataclass(frozen=True, slots=True)
class Template:
    """A parsed template."""

    parts: tuple[Part, ...]
    around: tuple[str, int | None, str] | None
    """The text before and after its only group, or all of its text: most templates have this form."""


_cache: LRUCache[tuple[str, int, tuple[tuple[str, tuple[int, ...]], ...]], Template] = LRUCache(_CACHE_SIZE)


def compile_template(template: str, group_count: int, names: Names) -> Template:
    """Read a template for a pattern with these groups; without named groups ``$<`` is text."""
    if "$" not in template:
        return Template((template,), (template, None, ""))
    key = (template, group_count, tuple(names.items()))
    return _cache.get_or_make(key, lambda: _compile(template, group_count, names))


def replace_each(subject: Subject, found: Sequence[Found], replace: Callable[[Found], str]) -> str:
    """Replace each match."""
    pieces: list[str] = []
    at = 0
    for one in found:
        whole = one.range()
        pieces += (subject[at : whole.start], replace(one))
        at = whole.stop
    pieces.append(subject[at:])
    return _join(pieces)


def replace_by_template(subject: Subject, found: Sequence[Found], template: Template) -> str | None:
    """Replace each match with a template; None if the text would become too long."""
    size = len(subject)
    # A template may repeat the whole text several times per match: only then the length is checked.
    longest = sum([len(part) if isinstance(part, str) else size for part in template.parts])
    counted = longest * len(found) > MAX_REPLACED_LENGTH
    replaced = None if counted or template.around is None else _replace_around(subject, found, *template.around)
    if replaced is not None:
        return replaced
    pieces: list[str] = []
    at = length = 0
    for one in found:
        whole = one.range()
        pieces.append(subject[at : whole.start])
        known = len(pieces)
        for part in template.parts:
            if isinstance(part, str):
                pieces.append(part)
                continue
            span = one.group(part) if isinstance(part, int) and part >= 0 else _span(part, one, size)
            if span is not None:
                pieces.append(subject[span])
        at = whole.stop
        if counted:
            length += sum(map(len, pieces[known:]))
            if length > MAX_REPLACED_LENGTH:
                return None
    pieces.append(subject[at:])
    return _join(pieces)


def _replace_around(subject: Subject, found: Sequence[Found], before: str, group: int | None, after: str) -> str | None:
    """Put text around a group of each match; None if this is not possible in the encoded form."""
    if isinstance(subject, str):
        return _join(_pieces(subject, found, before, group, after))
    encoded = subject.encoded(before), subject.encoded(after)
    if encoded[0] is None or encoded[1] is None:
        return None
    return subject.decoded(b"".join(_pieces(subject.data, found, encoded[0], group, encoded[1])))


def _pieces(text: AnyStr, found: Sequence[Found], before: AnyStr, group: int | None, after: AnyStr) -> list[AnyStr]:
    nothing = text[:0]
    pieces: list[AnyStr] = []
    at = 0
    for one in found:
        whole = one.range()
        if group is None:
            pieces += (text[at : whole.start], before)
        else:
            captured = one.group(group) if group else whole
            pieces += (text[at : whole.start], before, nothing if captured is None else text[captured], after)
        at = whole.stop
    pieces.append(text[at:])
    return pieces


def _join(pieces: list[str]) -> str:
    """Join pieces; adjacent halves of a character are joined."""
    return join_surrogates("".join(pieces))


def _span(part: int | tuple[int, ...], found: Found, size: int) -> slice | None:
    if isinstance(part, tuple):
        spans = [found.group(number) for number in part]
        return next((span for span in spans if span is not None), None)
    whole = found.range()
    return slice(0, whole.start) if part == _BEFORE else slice(whole.stop, size)


def _compile(template: str, group_count: int, names: Names) -> Template:
    parts = _parse(template, group_count, names)
    references = [index for index, part in enumerate(parts) if not isinstance(part, str)]
    if not references:
        return Template(tuple(parts), ("".join(map(str, parts)), None, ""))
    group = parts[references[0]] if len(references) == 1 else None
    if not isinstance(group, int) or group < 0:
        return Template(tuple(parts), None)
    before, after = parts[: references[0]], parts[references[0] + 1 :]
    return Template(tuple(parts), ("".join(map(str, before)), group, "".join(map(str, after))))


def _parse(template: str, group_count: int, names: Names) -> list[Part]:
    parts: list[Part] = []
    # After the last ">" there are no names, and searching for the end of each would take quadratic time.
    at, end = 0, template.rfind(">") + 1 if names else 0
    for token in chain(_TOKEN_OR_NAME.finditer(template, 0, end), _TOKEN.finditer(template, end)):
        reference = _reference(token, group_count, names)
        if reference is not None:
            part, after = reference
            parts += [template[at : token.start()], part]
            at = after
    parts.append(template[at:])
    return [part for part in parts if part != ""]


def _reference(token: re.Match[str], group_count: int, names: Names) -> tuple[Part, int] | None:
    """Return the meaning of a token and where it ends; two digits count as one if there are fewer groups."""
    if token.lastindex == 1:
        return _SYMBOLS[token[1]], token.end()
    if token.lastindex == 3:
        return names.get(token[3], ()), token.end()
    digits = token[2]
    for length in (2, 1):
        if len(digits) >= length and 1 <= int(digits[:length]) <= group_count:
            return int(digits[:length]), token.start() + 1 + length
    return None
