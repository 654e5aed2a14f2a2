"""Finds calls of legacy macros in a text.

Each finder does what one of SillyTavern's regular expressions does, from left to right, in linear time: a long text
full of unclosed openings must not block a build.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TypeAlias

from tavernkit._dataclass import dataclass

_LINE_END = re.compile("[\n\r\u2028\u2029]")
_TRIM = re.compile(r"\{\{trim\}\}", re.IGNORECASE | re.ASCII)


@dataclass(frozen=True, slots=True)
class Found:
    """A call: its span and the captured texts."""

    start: int
    end: int
    groups: tuple[str, ...] = ()


Finder: TypeAlias = Callable[[str], Iterator[Found]]
"""Finds all calls of one macro."""


def exactly(text: str, *, ascii_only: bool = True) -> Finder:
    """``{{name}}`` or a marker, in any case."""
    return pattern(re.escape(text), ascii_only=ascii_only)


def pattern(source: str, *, ascii_only: bool = True) -> Finder:
    """A regular expression without backtracking."""
    compiled = re.compile(source, re.IGNORECASE | re.ASCII if ascii_only else re.IGNORECASE)

    def find(text: str) -> Iterator[Found]:
        for match in compiled.finditer(text):
            yield Found(match.start(), match.end(), match.groups())

    return find


def up_to_brace(opening: str, *, may_be_empty: bool = False) -> Finder:
    """An opening, then anything without ``}``, then ``}}``."""
    start_of = re.compile(opening, re.IGNORECASE | re.ASCII).search

    def find(text: str) -> Iterator[Found]:
        at = 0
        while (opened := start_of(text, at)) is not None:
            body = opened.end()
            brace = text.find("}", body)
            if brace < 0:
                return
            # A brace that does not close this call does not close an earlier one either.
            at = brace + 1
            if text.startswith("}}", brace) and (may_be_empty or brace > body):
                at = brace + 2
                yield Found(opened.start(), at, (text[body:brace],))

    return find


def up_to_braces(opening: str, *, in_line: bool, separator: str = "", may_be_empty: bool = False) -> Finder:
    """An opening, then as little as possible (with a separator in it) up to ``}}``."""
    start_of = re.compile(opening, re.IGNORECASE | re.ASCII).search

    def find(text: str) -> Iterator[Found]:
        at, limit = 0, -1 if in_line else len(text)
        while (opened := start_of(text, at)) is not None:
            body = opened.end()
            if limit < body:
                limit = _line_end(text, body)
            middle = text.find(separator, body, limit) if separator else body
            after = middle + len(separator) + (0 if may_be_empty or separator else 1)
            close = text.find("}}", after, limit) if middle >= 0 else -1
            if close < 0:
                # Nothing closes a call in the rest of this line.
                at = limit
                continue
            at = close + 2
            groups = (text[body:middle], text[middle + len(separator) : close]) if separator else (text[body:close],)
            yield Found(opened.start(), at, groups)

    return find


def assignment(opening: str, *, may_be_empty: bool) -> Finder:
    """An opening, a name without colon, ``::``, a value without ``}``, then ``}}``."""
    start_of = re.compile(opening, re.IGNORECASE | re.ASCII).search

    def find(text: str) -> Iterator[Found]:
        at, brace = 0, -1
        while (opened := start_of(text, at)) is not None:
            name = opened.end()
            at = name
            colon = text.find(":", name)
            if colon < 0:
                return
            if colon == name or not text.startswith("::", colon):
                continue
            value = colon + 2
            if brace < value:
                brace = text.find("}", value)
                if brace < 0:
                    return
            if text.startswith("}}", brace) and (may_be_empty or brace > value):
                at = brace + 2
                yield Found(opened.start(), at, (text[name:colon], text[value:brace]))

    return find


def to_last_quote(opening: str) -> Finder:
    """An opening, then as much of the line as possible up to ``"}}``."""
    start_of = re.compile(opening, re.IGNORECASE | re.ASCII).search

    def find(text: str) -> Iterator[Found]:
        at = 0
        while (opened := start_of(text, at)) is not None:
            at = _line_end(text, opened.end())
            close = text.rfind('"}}', opened.end(), at)
            if close >= 0:
                yield Found(opened.start(), close + 3, (text[opened.end() : close],))

    return find


def trims(text: str) -> Iterator[Found]:
    """``{{trim}}`` with the line breaks around it."""
    last = 0
    for match in _TRIM.finditer(text):
        start, end = match.span()
        while start > last and text[start - 1] == "\n":
            start -= 2 if start - 2 >= last and text[start - 2] == "\r" else 1
        while text.startswith(("\n", "\r\n"), end):
            end += 1 if text[end] == "\n" else 2
        yield Found(start, end)
        last = end


def _line_end(text: str, start: int) -> int:
    found = _LINE_END.search(text, start)
    return len(text) if found is None else found.start()
