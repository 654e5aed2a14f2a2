"""Texts that know where their characters came from, for source maps.

Only builds for a source map have such texts (see ``tracing()``); in others, the functions here do the same as their
plain counterparts. A ``Traced`` text is a ``str`` everywhere. Concatenating, slicing, stripping, splitting and
replacing keep its pieces; operations that return plain text (f-strings, ``", ".join``, ``re.sub``) do not, so code that
processes a build's texts uses ``+`` and the functions of this module.
"""

from __future__ import annotations

import re
import threading
from bisect import bisect_right
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import field
from operator import itemgetter
from typing import Literal, SupportsIndex, TypeAlias

from tavernkit._dataclass import dataclass


@dataclass(slots=True, eq=False)
class Origin:
    """A text of a file or of another input.

    ``kind`` says what it belongs to (``card``, ``lore``, ``preset``, ``chat``…), ``name`` which one, and ``pointer``
    where it is in it, as a JSON pointer. ``kind`` is ``added`` for text that the builder itself adds: ``name`` is then
    the setting that causes it.
    """

    kind: str
    name: str
    pointer: str
    text: str = field(repr=False)
    title: str = ""
    source: object = field(default=None, repr=False)
    """What source maps show for it, made once."""


@dataclass(frozen=True, slots=True, eq=False)
class Change:
    """How a piece of text was made from another: by a macro, a script, a comparison.

    ``text`` is the text before: the macro as written, or what a script replaced.
    """

    kind: Literal["expanded", "replaced", "aligned"]
    name: str
    text: str


@dataclass(slots=True, eq=False)
class Via:
    """The last change that a piece went through, and the ones before it."""

    change: Change
    before: Via | None


Piece: TypeAlias = tuple[int, int, Origin | None, int, Via | None]
"""Start and end in the text; the origin, if known, and the offset in it; the changes on the way."""

_end = itemgetter(1)
_given: ContextVar[list[Origin] | None] = ContextVar("given", default=None)
"""The origins of traced texts in the running build for a source map."""
_lock = threading.Lock()
_builds = 0
"""How many builds for source maps are running, in all threads."""


@contextmanager
def tracing() -> Generator[list[Origin]]:
    """Keep the pieces of traced texts inside the ``with`` block; yields the origins of all."""
    global _builds  # noqa: PLW0603  # one switch for all threads: it decides about speed only
    with _lock:
        _builds += 1
    given: list[Origin] = []
    token = _given.set(given)
    try:
        yield given
    finally:
        _given.reset(token)
        with _lock:
            _builds -= 1


@contextmanager
def collected() -> Generator[list[Origin]]:
    """Yield the origins of texts traced inside the ``with`` block, for ``give()``."""
    given: list[Origin] = []
    token = _given.set(given)
    try:
        yield given
    finally:
        _given.reset(token)


def given() -> Sequence[Origin]:
    """Return the origins that the running build for a source map has so far."""
    return tuple(_given.get() or ())


def give(origins: Iterable[Origin]) -> None:
    """Add these origins to the running build for a source map."""
    given = _given.get()
    if given is not None:
        given.extend(origins)


class Traced(str):
    """A text with the pieces it is made of; they cover it from its start to its end."""

    __slots__ = ("pieces", "plain", "spans", "stripped")

    pieces: tuple[Piece, ...]
    plain: str
    """The text without its pieces."""
    spans: tuple[object, ...] | None
    """The spans that source maps show, made once."""
    stripped: tuple[str | None, str] | None
    """The last stripped characters and the result: the same object each time, so that caches find it."""

    def __add__(self, other: str, /) -> str:
        return _concatenated((self, other))

    def __radd__(self, other: str, /) -> str:
        return _concatenated((other, self))

    def __getitem__(self, key: SupportsIndex | slice, /) -> str:
        whole, pieces = self.plain, self.pieces
        part = whole[key]
        if not part or not isinstance(key, slice):
            return part
        start: object = key.start
        if key.step is not None or (start is not None and type(start) is not int):
            start, _, step = key.indices(len(whole))
            if step != 1:
                return part
        size = len(part)
        if size == len(whole):
            return self
        first = 0 if start is None else start if start >= 0 else max(start + len(whole), 0)
        if len(pieces) == 1:
            _, _, origin, offset, via = pieces[0]
            return _made(part, ((0, size, origin, offset + first, via),))
        return _made(part, _cut(pieces, first, first + size))

    def __str__(self) -> str:
        return self

    def __format__(self, spec: str, /) -> str:
        return str.__format__(self, spec) if spec else self

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        return str, (self.plain,)

    def __reduce_ex__(self, _protocol: SupportsIndex, /) -> tuple[type[str], tuple[str]]:
        return self.__reduce__()

    def __deepcopy__(self, _memo: object) -> str:
        return self

    def join(self, parts: Iterable[str], /) -> str:
        """Join with this text between the parts."""
        return _joined(self, list(parts))

    def strip(self, characters: str | None = None, /) -> str:
        """Strip characters at both ends."""
        known = self.stripped
        if known is not None and known[0] == characters:
            return known[1]
        text = self.plain
        stripped = text.rstrip(characters)
        end = len(stripped)
        start = end - len(stripped.lstrip(characters))
        if end - start == len(text):
            return self
        found = self[start:end]
        self.stripped = characters, found
        return found

    def lstrip(self, characters: str | None = None, /) -> str:
        """Strip characters at the start."""
        return self[len(self) - len(self.plain.lstrip(characters)) :]

    def rstrip(self, characters: str | None = None, /) -> str:
        """Strip characters at the end."""
        return self[: len(self.plain.rstrip(characters))]

    def removeprefix(self, prefix: str, /) -> str:
        """Remove a prefix."""
        return self[len(prefix) :] if prefix and self.startswith(prefix) else self

    def removesuffix(self, suffix: str, /) -> str:
        """Remove a suffix."""
        return self[: -len(suffix)] if suffix and self.endswith(suffix) else self

    def split(self, sep: str | None = None, maxsplit: SupportsIndex = -1) -> list[str]:  # pyright: ignore[reportIncompatibleMethodOverride]  # the names are str's own
        """Split at a separator."""
        return self._found_again(str.split(self, sep, maxsplit))

    def splitlines(self, keepends: bool = False) -> list[str]:  # pyright: ignore[reportIncompatibleMethodOverride]  # as str has it
        """Split into lines."""
        return self._found_again(str.splitlines(self, keepends))

    def partition(self, sep: str, /) -> tuple[str, str, str]:
        """Split at the first separator."""
        at = self.find(sep)
        return (self, "", "") if at < 0 else (self[:at], self[at : at + len(sep)], self[at + len(sep) :])

    def rpartition(self, sep: str, /) -> tuple[str, str, str]:
        """Split at the last separator."""
        at = self.rfind(sep)
        return ("", "", self) if at < 0 else (self[:at], self[at : at + len(sep)], self[at + len(sep) :])

    def replace(self, old: str, new: str, count: SupportsIndex = -1, /) -> str:  # pyright: ignore[reportIncompatibleMethodOverride]  # positional, as all calls are
        """Replace each occurrence."""
        if not old or old not in self:
            return self if old else str.replace(self, old, new, count)
        parts: list[str] = []
        at, left = 0, int(count)
        while left and (found := self.find(old, at)) >= 0:
            parts += (self[at:found], new)
            at = found + len(old)
            left -= 1
        parts.append(self[at:])
        return _concatenated(parts)

    def _found_again(self, parts: list[str]) -> list[str]:
        """Return the same parts as slices of this text, in which they occur in this order."""
        if len(parts) == 1 and len(parts[0]) == len(self):
            return [self]
        found: list[str] = []
        at = 0
        for part in parts:
            if part:
                at = self.find(part, at)
                found.append(self[at : at + len(part)])
                at += len(part)
            else:
                found.append(part)
        return found


def is_tracing() -> bool:
    """Return True while a build for a source map runs."""
    return _builds > 0


def trace(text: str, origin: Origin, offset: int = 0) -> str:
    """Return a text with an origin and an offset in it; an empty text has none."""
    if not text:
        return text
    given = _given.get()
    if given is not None:
        given.append(origin)
    return _made(plain(text), ((0, len(text), origin, offset, None),))


def with_pieces(text: str, pieces: tuple[Piece, ...]) -> str:
    """Return a text with pieces that cover it."""
    return _made(text, pieces)


def plain(text: str) -> str:
    """The text without its pieces."""
    if type(text) is str:
        return text
    return text.plain if isinstance(text, Traced) else str.__str__(text)


def pieces_of(text: str) -> tuple[Piece, ...]:
    """Return the pieces of any text; a plain text is a single piece of unknown origin."""
    if isinstance(text, Traced):
        return text.pieces
    return ((0, len(text), None, 0, None),) if text else ()


def unknown_parts(text: str, length: int) -> list[str]:
    """Return the parts of a text longer than this that have no known origin."""
    return [
        plain(text)[start:end]
        for start, end, origin, _, _ in pieces_of(text)
        if origin is None and end - start > length
    ]


def join(separator: str, parts: Iterable[str]) -> str:
    """Do what ``separator.join(parts)`` does."""
    return _joined(separator, list(parts)) if _builds else separator.join(parts)


def added(text: str, setting: str) -> str:
    """Return a text that the builder adds because of a setting."""
    if not _builds or not text or isinstance(text, Traced):
        return text
    return _made(text, ((0, len(text), Origin("added", setting, "", text), 0, None),))


def expanded(text: str, name: str, call: str) -> str:
    """Return the result of a macro, with the macro as it was written."""
    return changed(text, Change("expanded", name, call)) if _builds else text


def replaced(text: str, name: str, before: str) -> str:
    """Return the replacement of a script, with the text before."""
    return changed(text, Change("replaced", name, before)) if _builds else text


def substitute(
    pattern: re.Pattern[str],
    replacement: str | Callable[[re.Match[str]], str],
    text: str,
    *,
    kind: Literal["expanded", "replaced"] = "replaced",
    name: str = "",
) -> str:
    """Do what ``pattern.sub(replacement, text)`` does; a replacement is literal, without references."""
    if type(text) is str or not _builds:
        return pattern.sub((lambda _found: replacement) if isinstance(replacement, str) else replacement, text)
    parts: list[str] = []
    at = 0
    for found in pattern.finditer(text):
        new = replacement if isinstance(replacement, str) else replacement(found)
        old = text[found.start() : found.end()]
        parts += (text[at : found.start()], old if new == old else changed(new, Change(kind, name, old)))
        at = found.end()
    parts.append(text[at:])
    return _concatenated(parts)


def split(pattern: re.Pattern[str], text: str) -> list[str]:
    """Do what ``pattern.split(text)`` does, for a pattern without groups."""
    if type(text) is str:
        return pattern.split(text)
    parts: list[str] = []
    at = 0
    for found in pattern.finditer(text):
        parts.append(text[at : found.start()])
        at = found.end()
    return [*parts, text[at:]]


def group(found: re.Match[str], number: int, text: str) -> str:
    """Return what a group of a match captured, as a slice of the searched text."""
    return found[number] if type(text) is str else text[found.start(number) : found.end(number)]


def _made(text: str, pieces: tuple[Piece, ...]) -> Traced:
    made = str.__new__(Traced, text)
    made.pieces = pieces
    made.plain = text
    made.spans = None
    made.stripped = None
    return made


def changed(text: str, change: Change) -> str:
    """Return a text that was made from another."""
    if not text:
        return text
    return _made(
        plain(text),
        tuple([(start, end, origin, offset, Via(change, via)) for start, end, origin, offset, via in pieces_of(text)]),
    )


def _cut(pieces: Sequence[Piece], start: int, end: int) -> tuple[Piece, ...]:
    found: list[Piece] = []
    for index in range(bisect_right(pieces, start, key=_end), len(pieces)):
        first, last, origin, offset, via = pieces[index]
        if first >= end:
            break
        low, high = max(first, start), min(last, end)
        found.append((low - start, high - start, origin, offset + low - first, via))
    return tuple(found)


def _joined(separator: str, parts: Sequence[str]) -> str:
    if not separator:
        return _concatenated(parts)
    between: list[str] = []
    for part in parts:
        between += (separator, part)
    return _concatenated(between[1:])


def _concatenated(parts: Sequence[str]) -> str:
    known = [part for part in parts if part]
    if len(known) == 1:
        return known[0]
    pieces: list[Piece] = []
    at, traced = 0, False
    for part in known:
        if isinstance(part, Traced):
            own, traced = part.pieces, True
        else:
            own = ((0, len(part), None, 0, None),)
        if pieces and follows(pieces[-1], own[0]):
            first, _, origin, offset, via = pieces[-1]
            pieces[-1] = first, at + own[0][1], origin, offset, via
            own = own[1:]
        pieces += [(at + start, at + end, origin, offset, via) for start, end, origin, offset, via in own]
        at += len(part)
    text = "".join(parts)
    return _made(text, tuple(pieces)) if traced else text


def follows(before: Piece, piece: Piece) -> bool:
    """Return True if two adjacent pieces are also adjacent in their origin."""
    start, end, origin, offset, via = before
    return origin is piece[2] and via is piece[4] and (origin is None or offset + end - start == piece[3])
