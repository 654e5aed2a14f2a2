"""Sets of characters as bit masks, to decide what can follow what in a pattern.

One bit for each ASCII character, one for each range of other characters that the pattern does not distinguish, and one
for the end of the text. A computed set always contains the real one, and may be larger.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from functools import lru_cache

import regress

from tavernkit._text.js_regex.emit import other_variants
from tavernkit._text.js_regex.nodes import (
    Alternatives,
    Char,
    CharClass,
    ClassItem,
    Dot,
    Group,
    Look,
    Node,
    Pattern,
    Repeat,
    Sequence,
    SetClass,
)
from tavernkit._text.js_regex.scanner import MAX_CODE_POINT, is_string_property

ASCII_SIZE = 128
ASCII = (1 << ASCII_SIZE) - 1
"""All ASCII characters."""

END = 1 << ASCII_SIZE
"""The end of the text."""

_FIRST_STRETCH = ASCII_SIZE + 1
_MAX_STRETCHES = 200
_ALL_ASCII = "".join(map(chr, range(ASCII_SIZE)))


def _bits(characters: str) -> int:
    return sum(1 << ord(character) for character in set(characters))


_UPPER, _LOWER = _bits("ABCDEFGHIJKLMNOPQRSTUVWXYZ"), _bits("abcdefghijklmnopqrstuvwxyz")
_DIGIT = _bits("0123456789")
_WORD = _UPPER | _LOWER | _DIGIT | _bits("_")
_SPACE = _bits("\t\n\v\f\r ")
LINE_ENDS = _bits("\n\r")
_KELVIN_AND_LONG_S = _bits("kKsS")
_WIDE_SPACES = (
    (0xA0, 0xA0),
    (0x1680, 0x1680),
    (0x2000, 0x200A),
    (0x2028, 0x2029),
    (0x202F, 0x202F),
    (0x205F, 0x205F),
    (0x3000, 0x3000),
    (0xFEFF, 0xFEFF),
)
_WIDE_LINE_ENDS = (0x2028, 0x2029)


class Alphabet:
    """The characters that one pattern distinguishes."""

    def __init__(self, pattern: Pattern) -> None:
        self._fold = "i" in pattern.flags or pattern.has_modifiers
        self._unicode = pattern.unicode
        self._dot_all = "s" in pattern.flags or pattern.has_modifiers
        # Unicode's folding relates characters of different ranges, so all of them count as one.
        bounds = {ASCII_SIZE} if self._fold and self._unicode else _bounds(pattern.root, fold=self._fold)
        self._bounds = sorted(bounds)
        self.wide = ((1 << len(self._bounds)) - 1) << _FIRST_STRETCH
        """All characters beyond ASCII."""
        self.characters = ASCII | self.wide
        """All characters."""
        self.line_ends = LINE_ENDS | self._range(*_WIDE_LINE_ENDS)[0]
        """The characters that end a line."""

    def mask(self, node: Char | Dot | CharClass | SetClass) -> int:
        """Return the characters a node may match."""
        match node:
            case Char(code):
                return self._variants(code, code)
            case Dot():
                return self.characters if self._dot_all else self.characters & ~LINE_ENDS
            case CharClass(items, negated):
                return self._class(items, negated=negated)
            case SetClass():
                return self.characters

    def ranges(self, mask: int) -> list[tuple[int, int]]:
        """List the characters of a set."""
        bits = mask & self.characters
        ranges = [(code, code) for code in range(ASCII_SIZE) if bits >> code & 1]
        for index, first in enumerate(self._bounds):
            if bits >> (_FIRST_STRETCH + index) & 1:
                ranges.append((first, self._end(index)))
        return ranges

    def _end(self, index: int) -> int:
        """Return the last character of a range."""
        return self._bounds[index + 1] - 1 if index + 1 < len(self._bounds) else MAX_CODE_POINT

    def _class(self, items: tuple[ClassItem, ...], *, negated: bool) -> int:
        """Collect a class; negating one requires the characters that are certainly in it."""
        most, least = 0, 0
        for item in items:
            if isinstance(item, str):
                upper, lower = self._escape(item)
                most |= self._folded(upper)
            else:
                lower = self._range(*item)[1]
                most |= self._variants(*item)
            least |= lower
        return self.characters & ~least if negated else most

    def _variants(self, first: int, last: int) -> int:
        """Return the bits that a range and its upper- and lower-case variants touch."""
        if not self._fold or self._unicode:
            return self._folded(self._range(first, last)[0])
        mask = self._range(first, last)[0]
        for code in other_variants(first, last):
            mask |= self._range(code, code)[0]
        return mask

    def _range(self, first: int, last: int) -> tuple[int, int]:
        """Return the bits that a range touches, and those it covers."""
        touched = covered = 0
        if first < ASCII_SIZE:
            touched = covered = (1 << (min(last, ASCII_SIZE - 1) + 1)) - (1 << first)
        if last < ASCII_SIZE:
            return touched, covered
        first = max(first, ASCII_SIZE)
        for index in range(bisect_right(self._bounds, first) - 1, bisect_right(self._bounds, last)):
            bit = 1 << (_FIRST_STRETCH + index)
            touched |= bit
            if first <= self._bounds[index] and self._end(index) <= last:
                covered |= bit
        return touched, covered

    def _escape(self, escape: str) -> tuple[int, int]:
        if escape[0] in "pP":
            ascii_mask = _ascii_members(escape)
            return ascii_mask | self.wide, ascii_mask
        most, least = {
            "d": lambda: (_DIGIT, _DIGIT),
            "w": lambda: (_WORD | (self.wide if self._fold and self._unicode else 0), _WORD),
            "s": self._spaces,
        }[escape.lower()]()
        return (most, least) if escape.islower() else (self.characters & ~least, self.characters & ~most)

    def _spaces(self) -> tuple[int, int]:
        most = least = _SPACE
        for first, last in _WIDE_SPACES:
            touched, covered = self._range(first, last)
            most |= touched
            least |= covered
        return most, least

    def _folded(self, mask: int) -> int:
        if not self._fold:
            return mask
        mask |= (mask & _UPPER) << 32 | (mask & _LOWER) >> 32
        if self._unicode:
            if mask & self.wide:
                mask |= _KELVIN_AND_LONG_S
            if mask & _KELVIN_AND_LONG_S:
                mask |= self.wide
        return mask


@lru_cache(maxsize=256)
def _ascii_members(escape: str) -> int:
    """Return the ASCII characters of a property, according to the engine."""
    members = regress.Regex(f"\\{escape}", "u").find_iter(_ALL_ASCII) or ()
    return sum(1 << found.range().start for found in members)


def check_properties(properties: Iterable[str]) -> None:
    """Raise ``regress.RegressError`` for an unknown property."""
    for escape in set(properties):
        if not is_string_property(escape):
            _ascii_members(escape)


def _bounds(root: Node, *, fold: bool) -> set[int]:
    """Return where the ranges of non-ASCII characters begin that a pattern distinguishes."""
    bounds = {ASCII_SIZE}
    for first, last in _ranges(root):
        if last >= ASCII_SIZE:
            bounds |= {max(first, ASCII_SIZE), min(last + 1, MAX_CODE_POINT)}
        for code in other_variants(first, last) if fold else ():
            if code >= ASCII_SIZE:
                bounds |= {code, code + 1}
        if len(bounds) > _MAX_STRETCHES:
            return {ASCII_SIZE}
    return bounds


def _ranges(node: Node) -> Iterator[tuple[int, int]]:
    match node:
        case Char(code):
            yield code, code
        case CharClass(items):
            for item in items:
                if not isinstance(item, str):
                    yield item
                elif item in "sS":
                    yield from _WIDE_SPACES
        case Group(body) | Look(body) | Repeat(body):
            yield from _ranges(body)
        case Sequence(parts) | Alternatives(parts):
            for part in parts:
                yield from _ranges(part)
        case _:
            pass
