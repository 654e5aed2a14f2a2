"""Writes a parsed pattern in an unambiguous form for the engine.

The engine accepts the same language, but differs in details. This form avoids them: groups are numbered instead of
named, escapes are resolved to characters, and surrogates are replaced by the stand-ins of
``tavernkit._text.js_regex.subject``. The engine folds case by Unicode's tables in every mode, which would let ``/s/i``
match ``ſ`` and ``/i/i`` match ``ı``; JavaScript does that only with ``u`` or ``v``, and otherwise compares upper case.
So characters that ignore case are written with their variants.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from functools import cache, lru_cache

import regress

from tavernkit._text.js_regex.limits import MAX_WRITTEN_LENGTH
from tavernkit._text.js_regex.nodes import (
    INFINITE,
    Alternatives,
    Assertion,
    BackReference,
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
from tavernkit._text.js_regex.scanner import JSRegexSyntaxError, is_string_property
from tavernkit._text.js_regex.subject import engine_ranges, stand_in

_SPECIAL = frozenset("^$\\.*+?()[]{}|/")
_CLASS_SPECIAL = frozenset("^\\]-")
_MOST_BRANCHES = 16
_PROPERTY = re.compile(r"\\([pP])\{[^}]*\}")
_DIGITS = {"p": r"\d", "P": r"\D"}


def emit(pattern: Pattern) -> str:
    """Write a pattern for the engine."""
    return _writer(pattern, 0).write(pattern.root)


def emit_inner(pattern: Pattern) -> str:
    """Write a pattern for ``emit_from()``: its groups are numbered from 2."""
    return _writer(pattern, 1).write(pattern.root)


def emit_from(inner: str, skipped: int, *, sticky: bool) -> str:
    """Write a pattern that matches only after this many characters of the text (sticky: right after them).

    The match is group 1.
    """
    gap = "" if sticky else "[^]*?"
    return f"(?<![^])[^]{{{skipped}}}{gap}({inner})"


def stand_in_source(source: str) -> str:
    """Write plain digits for all properties: other errors are still found, and it compiles quickly."""
    return _PROPERTY.sub(lambda found: r"[\q{ab}]" if is_string_property(found[0][1:]) else _DIGITS[found[1]], source)


def engine_flags(pattern: Pattern) -> str:
    """Return the engine flags for a written pattern."""
    if pattern.unicode:
        # The engine folds case correctly in v mode only if the unicode flag is set as well.
        return "".join(flag for flag in pattern.flags if flag in "imsv") + "u"
    return "".join(flag for flag in pattern.flags if flag in "ms")


def _writer(pattern: Pattern, first_group: int) -> _Writer:
    return _Writer(first_group, unicode=pattern.unicode, ignore_case="i" in pattern.flags)


class _Writer:
    """Writes nodes. Groups are numbered from ``first_group`` plus one; ``fold`` writes out the variants of letters."""

    def __init__(self, first_group: int, *, unicode: bool, ignore_case: bool) -> None:
        self.first_group = first_group
        self.unicode = unicode
        self.fold = ignore_case and not unicode
        self.unicode_fold = ignore_case and unicode
        self._characters: dict[tuple[int, bool], str] = {}
        self._size = 0

    def write(self, node: Node) -> str:
        match node:
            case Char(code):
                return self._character(code)
            case Dot():
                return "."
            case CharClass(items, negated):
                return self._class(items, negated=negated)
            case SetClass(source=source):
                return self._write_counted(source)
            case Assertion(kind):
                return kind if kind in "^$" else f"\\{kind}"
            case BackReference(groups):
                return "".join([self._reference(number) for number in groups])
            case Sequence(items):
                character = self._character
                return "".join([character(one.code) if type(one) is Char else self.write(one) for one in items])
            case Alternatives(branches):
                return _choice([self.write(branch) for branch in branches])
            case Group(body, number, modifiers):
                return f"({self.write(body)})" if number is not None else self._plain_group(body, modifiers)
            case Look(body, behind, negative):
                return f"(?{'<' if behind else ''}{'!' if negative else '='}{self.write(body)})"
            case Repeat(body, least, most, greedy):
                return self._write_repeated(body) + _quantifier(least, most) + ("" if greedy else "?")

    def _write_repeated(self, body: Node) -> str:
        """Write a repeated part as one atom, because references to a shared name are several."""
        text = self.write(body)
        return f"(?:{text})" if isinstance(body, BackReference | Look) else text

    def _reference(self, number: int) -> str:
        return f"(?{'i' if self.fold else ''}:\\{number + self.first_group})"

    def _plain_group(self, body: Node, modifiers: str) -> str:
        if self.unicode or not modifiers:
            return f"(?{modifiers}:{self.write(body)})"
        added, _, removed = modifiers.partition("-")
        outer = self.fold
        self.fold = "i" in added or (outer and "i" not in removed)
        text = self.write(body)
        self.fold = outer
        added, removed = added.replace("i", ""), removed.replace("i", "")
        return f"(?{added}{'-' if removed else ''}{removed}:{text})"

    def _character(self, code: int) -> str:
        # There may be thousands, but few distinct ones.
        key = (code, self.fold)
        written = self._characters.get(key)
        if written is None:
            written = self._characters[key] = self._new_character(code)
        return written

    def _new_character(self, code: int) -> str:
        if self.fold and len(same := variants(code)) > 1:
            return self._class(tuple([(one, one) for one in same]), negated=False)
        character = chr(stand_in(code))
        return f"\\{character}" if character in _SPECIAL else character

    def _class(self, items: tuple[ClassItem, ...], *, negated: bool) -> str:
        if len(items) == 1 and isinstance(items[0], str) and not negated:
            return f"\\{items[0]}"
        inside = "".join([self._escape(item) if isinstance(item, str) else self._ranges(*item) for item in items])
        return self._write_counted(f"[{'^' if negated else ''}{inside}]")

    def _write_counted(self, written: str) -> str:
        self._size += len(written)
        if self._size > MAX_WRITTEN_LENGTH:
            raise JSRegexSyntaxError("Invalid regular expression: Regular expression too large")
        return written

    def _escape(self, escape: str) -> str:
        if escape == "W" and self.unicode_fold:
            # In a class the engine would add the letters that ſ and the Kelvin sign are variants of.
            return "".join([_range(low, high) for low, high in NOT_WORD])
        return f"\\{escape}"

    def _ranges(self, first: int, last: int) -> str:
        others = other_variants(first, last) if self.fold else ()
        return _range(first, last) + "".join(map(chr, others))


def _choice(branches: list[str]) -> str:
    """Write many alternatives as nested groups: compiling is quadratic in alternatives per level."""
    while len(branches) > _MOST_BRANCHES:
        together = [branches[at : at + _MOST_BRANCHES] for at in range(0, len(branches), _MOST_BRANCHES)]
        branches = [f"(?:{'|'.join(some)})" for some in together]
    return "|".join(branches)


def _quantifier(least: int, most: int) -> str:
    if most == INFINITE:
        return {0: "*", 1: "+"}.get(least) or f"{{{least},}}"
    return f"{{{least}}}" if least == most else f"{{{least},{most}}}"


def _range(first: int, last: int) -> str:
    return "".join([_range_text(low, high) for low, high in engine_ranges(first, last)])


def _range_text(first: int, last: int) -> str:
    low, high = _class_character(first), _class_character(last)
    return low if first == last else f"{low}-{high}"


def _class_character(code: int) -> str:
    character = chr(code)
    return f"\\{character}" if character in _CLASS_SPECIAL else character


Range = tuple[int, int]

NOT_WORD: tuple[Range, ...] = (
    *((0x00, 0x2F), (0x3A, 0x40), (0x5B, 0x5E), (0x60, 0x60)),
    *((0x7B, 0x17E), (0x180, 0x2129), (0x212B, 0x10FFFF)),
)
"""What is not a word character with both ``i`` and ``u``: ſ and the Kelvin sign are, as variants of letters."""

_UNITS = 0x10000
_CASED_END = 0x1F000
_ASCII_END = 0x80
_CASE_BIT = 0x20
_NEAR = 64


def _canonical(character: str) -> str:
    upper = character.upper()
    if len(upper) != 1 or (upper.isascii() and not character.isascii()):
        return character
    return upper


@cache
def _families() -> dict[int, tuple[int, ...]]:
    """Map each code unit with variants to all of them, including itself."""
    by_canonical: defaultdict[str, list[int]] = defaultdict(list)
    for code in range(_UNITS):
        character = chr(code)
        if character.upper() != character or character.lower() != character:
            by_canonical[_canonical(character)].append(code)
    return {code: tuple(family) for family in by_canonical.values() if len(family) > 1 for code in family}


def variants(code: int) -> tuple[int, ...]:
    """Return the characters that are equal to one, including itself."""
    if code < _ASCII_END:
        return (code & ~_CASE_BIT, code | _CASE_BIT) if chr(code).isalpha() else (code,)
    return _families().get(code, (code,))


Pairs = list[tuple[int, int]]
"""Characters, each with one of its variants, in order."""


@cache
def _pairs() -> tuple[Pairs, Pairs]:
    """List the pairs of variants: those near each other, and the rest."""
    pairs = sorted((code, member) for code, family in _families().items() for member in family if member != code)
    near = [pair for pair in pairs if abs(pair[0] - pair[1]) < _NEAR]
    return near, [pair for pair in pairs if abs(pair[0] - pair[1]) >= _NEAR]


@lru_cache(maxsize=1024)
def other_variants(first: int, last: int) -> tuple[int, ...]:
    """Return the variants of a range's characters that are outside it."""
    if last < _ASCII_END:
        letters = [code for code in range(first, last + 1) if chr(code).isalpha()]
        return tuple([code ^ _CASE_BIT for code in letters if not first <= code ^ _CASE_BIT <= last])
    if first == last:
        return tuple([code for code in variants(first) if code != first])
    near, far = _pairs()
    # Of pairs near each other, only those near an end of the range can have a variant outside.
    start, end = bisect_left(near, (first, 0)), bisect_left(near, (last + 1, 0))
    low, high = bisect_left(near, (first + _NEAR, 0), start, end), bisect_left(near, (last - _NEAR, 0), start, end)
    pairs = near[start:end] if low >= high else near[start:low] + near[high:end]
    pairs += far[bisect_left(far, (first, 0)) : bisect_left(far, (last + 1, 0))]
    return tuple(sorted({member for _, member in pairs if not first <= member <= last}))


# With ``u`` or ``v``, characters are equal if Unicode folds them to the same one.


def simple_fold(code: int) -> int:
    """Return the character that a character is folded to with both ``i`` and ``u`` or ``v``."""
    character = chr(code)
    for folded in (character.casefold(), character.lower()):
        if len(folded) == 1:
            return ord(folded)
    return code


@cache
def _unicode_families() -> dict[int, tuple[int, ...]]:
    by_fold: defaultdict[int, list[int]] = defaultdict(list)
    for code in range(_CASED_END):
        character = chr(code)
        if not (character == character.lower() == character.upper() == character.casefold()):
            by_fold[simple_fold(code)].append(code)
    return {code: tuple(family) for family in by_fold.values() if len(family) > 1 for code in family}


@cache
def cased_characters() -> str:
    """Return all characters that have variants."""
    return "".join(map(chr, sorted(_unicode_families())))


@lru_cache(maxsize=1024)
def unicode_variants(first: int, last: int) -> tuple[int, ...]:
    """Return the variants of a range's characters that are outside it, with ``u`` or ``v``."""
    families = _unicode_families()
    if first == last:
        return tuple([code for code in families.get(first, ()) if code != first])
    within = [code for code in families if first <= code <= last]
    return tuple(sorted({member for code in within for member in families[code] if not first <= member <= last}))


@lru_cache(maxsize=256)
def property_variants(name: str) -> tuple[int, ...]:
    """Return the variants of a property's characters that do not have it; raises ``regress.RegressError``."""
    text = cased_characters().encode()
    source = f"\\p{{{name}}}"
    folded, plain = (
        {ord(text[found.range()].decode()) for found in regress.Regex(source, flags).find_iter(text.decode()) or ()}
        for flags in ("iu", "u")
    )
    return tuple(sorted(folded - plain))
