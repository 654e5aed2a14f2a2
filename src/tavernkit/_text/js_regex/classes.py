"""Character classes and escapes for characters, and the nested classes of ``v`` mode.

Classes of ``v`` mode are checked here and rewritten for the engine, with every character as an escape. With the
``i`` flag each operand is written with the other case of its letters: the standard folds before it intersects,
subtracts and negates, the engine only at the end.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

import regress

from tavernkit._text.js_regex.emit import NOT_WORD, property_variants, simple_fold, unicode_variants
from tavernkit._text.js_regex.limits import MAX_DEPTH, MAX_WRITTEN_LENGTH
from tavernkit._text.js_regex.nodes import CharClass, ClassItem, Node, SetClass
from tavernkit._text.js_regex.scanner import Scanner, is_string_property
from tavernkit._text.js_regex.subject import engine_ranges, stand_in

_CONTROL_ESCAPES = {"f": 0x0C, "n": 0x0A, "r": 0x0D, "t": 0x09, "v": 0x0B}
_SET_CONTROL_ESCAPES = {**_CONTROL_ESCAPES, "b": 0x08}
_SET_ESCAPES = frozenset("dDsSwW")
_SYNTAX_CHARACTERS = frozenset("^$\\.*+?()[]{}|/")
_ASCII_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
_CLASS_CONTROL = frozenset("0123456789_")


def parse_class(scanner: Scanner, *, named: bool) -> Node:
    """Parse a class whose ``[`` has been read."""
    if scanner.sets:
        return parse_set_class(scanner)
    negated = scanner.eat("^")
    items: list[ClassItem] = []
    while not scanner.eat("]"):
        first = _class_atom(scanner, named=named)
        if scanner.peek() != "-" or scanner.peek(1) in ("]", ""):
            items.append(_single(first))
            continue
        scanner.at += 1
        last = _class_atom(scanner, named=named)
        if isinstance(first, str) or isinstance(last, str):
            if scanner.unicode:
                raise scanner.error("Invalid character class")
            items += [_single(first), (0x2D, 0x2D), _single(last)]
        elif first > last:
            raise scanner.error("Range out of order in character class")
        else:
            items.append((first, last))
    return CharClass(tuple(items), negated)


def _single(atom: int | str) -> ClassItem:
    return atom if isinstance(atom, str) else (atom, atom)


def _class_atom(scanner: Scanner, *, named: bool) -> int | str:
    character = scanner.take()
    if not character:
        raise scanner.error("Unterminated character class")
    if character != "\\":
        return ord(character)
    if scanner.peek() in ("p", "P") and scanner.unicode:
        return scanner.property_text()
    return class_escape(scanner, in_class=True, named=named)


def parse_property(scanner: Scanner) -> Node:
    """Parse ``p{…}`` or ``P{…}`` outside a class, after its backslash; in ``v`` mode it may match strings."""
    text = scanner.property_text()
    if scanner.sets and is_string_property(text):
        return SetClass(f"[\\{text}]", strings=True)
    if scanner.sets and "i" in scanner.flags and text.startswith("P"):
        return CharClass((f"p{text[1:]}",), negated=True)  # it is folded before it is negated
    return CharClass((text,))


def class_escape(scanner: Scanner, *, in_class: bool, named: bool) -> int | str:
    """Parse an escape after its backslash: a character's code, or the letter of a set of characters."""
    character = scanner.take()
    if not character:
        raise scanner.error("\\ at end of pattern")
    if character in _SET_ESCAPES:
        return character
    if character in _CONTROL_ESCAPES:
        return _CONTROL_ESCAPES[character]
    if character == "b" and in_class:
        return 0x08
    if character in "0123456789":
        return _digit_escape(scanner, character)
    if character == "c":
        return _control_letter(scanner, in_class=in_class)
    if character in "xu":
        code = scanner.hex_code(2) if character == "x" else scanner.unicode_escape(braces=scanner.unicode)
        if code is None and scanner.unicode:
            raise scanner.error("Invalid escape" if character == "x" else "Invalid Unicode escape")
        return ord(character) if code is None else code
    if scanner.unicode:
        if character not in _SYNTAX_CHARACTERS and not (in_class and character == "-"):
            raise scanner.error("Invalid escape")
    elif character == "k" and named:
        raise scanner.error("Invalid escape")
    return ord(character)


def _digit_escape(scanner: Scanner, first: str) -> int:
    """Read a zero or, where the web allows it, an octal number; 8 and 9 are literal."""
    if scanner.unicode:
        if first != "0" or (scanner.peek() and scanner.peek() in "0123456789"):
            raise scanner.error("Invalid class escape" if first == "0" else "Invalid escape")
        return 0
    if first in "89":
        return ord(first)
    digits = first
    longest = 3 if first in "0123" else 2
    while len(digits) < longest and scanner.peek() and scanner.peek() in "01234567":
        digits += scanner.take()
    return int(digits, 8)


def _control_letter(scanner: Scanner, *, in_class: bool) -> int:
    letter = scanner.peek()
    if letter in _ASCII_LETTERS or (in_class and not scanner.unicode and letter in _CLASS_CONTROL):
        scanner.at += 1
        return ord(letter) % 32
    if scanner.unicode:
        raise scanner.error("Invalid unicode escape")
    # On the web a lone \c is a backslash followed by a c.
    scanner.at -= 1
    return 0x5C


_SYNTAX = frozenset("()[]{}/-\\|")
_DOUBLED = frozenset("&!#$%*+,.:;<=>?@^`~")
_ESCAPED = frozenset("&-!#%,:;<=>@`~^$\\.*+?()[]{}|/")
_OPERATORS = ("&&", "--")

_Operand = tuple[str, bool, int | None]
"""The text to write, whether it may match strings, and its code if it is one character."""


def parse_set_class(scanner: Scanner, depth: int = 1) -> SetClass:
    """Parse a class whose ``[`` has been read."""
    if depth > MAX_DEPTH:
        raise scanner.error("Regular expression too deeply nested")
    negated = scanner.eat("^")
    written = ""
    strings = False
    operator = None
    count = 0
    while not scanner.eat("]"):
        if count and operator is None and count == 1 and scanner.text.startswith(_OPERATORS, scanner.at):
            operator = scanner.text[scanner.at : scanner.at + 2]
        if operator is not None and count:
            if not scanner.eat(operator):
                raise scanner.error("Invalid set operation in character class")
            written += operator
        text, own_strings, code = _operand(scanner, depth)
        if operator is None and scanner.peek() == "-" and scanner.peek(1) != "-":
            text, code = _range(scanner, code, depth), None
        written += text
        strings = _may_match_strings(strings, own_strings, operator, first=count == 0)
        count += 1
    if negated and strings:
        raise scanner.error("Negated character class may contain strings")
    return SetClass(f"[{'^' if negated else ''}{written}]", strings)


def _may_match_strings(before: bool, own: bool, operator: str | None, *, first: bool) -> bool:
    """Return True if a class may match strings, with one more operand."""
    if first:
        return own
    return {None: before or own, "&&": before and own, "--": before}[operator]


def _range(scanner: Scanner, first: int | None, depth: int) -> str:
    scanner.at += 1
    last = _operand(scanner, depth)[2]
    if first is None or last is None:
        raise scanner.error("Invalid character class")
    if first > last:
        raise scanner.error("Range out of order in character class")
    return _written_ranges(((first, last),)) + _written_others(scanner, first, last)


def _written_others(scanner: Scanner, first: int, last: int) -> str:
    """Write the variants of a range's letters."""
    return "".join(map(_write, unicode_variants(first, last))) if "i" in scanner.flags else ""


def _written_ranges(ranges: Iterable[tuple[int, int]]) -> str:
    parts = [part for first, last in ranges for part in engine_ranges(first, last)]
    return "".join([_write(low) if low == high else f"{_write(low)}-{_write(high)}" for low, high in parts])


def _write(code: int) -> str:
    return f"\\u{{{stand_in(code):x}}}"


def _operand(scanner: Scanner, depth: int) -> _Operand:
    if scanner.eat("["):
        inner = parse_set_class(scanner, depth + 1)
        return inner.source, inner.strings, None
    if scanner.eat("\\q{"):
        return _strings(scanner)
    if scanner.peek() == "\\" and scanner.peek(1) in ("p", "P"):
        scanner.at += 1
        return _property(scanner)
    if scanner.peek() == "\\" and scanner.peek(1) and scanner.peek(1) in "dDsSwW":
        scanner.at += 2
        escape = scanner.text[scanner.at - 2 : scanner.at]
        # In a class the engine would add the letters that ſ and the Kelvin sign are variants of.
        folded = escape in ("\\w", "\\W") and "i" in scanner.flags
        negation = "^" if escape == "\\w" else ""
        return f"[{negation}{_written_ranges(NOT_WORD)}]" if folded else escape, False, None
    code = _character(scanner)
    others = _written_others(scanner, code, code)
    return f"[{_write(code)}{others}]" if others else _write(code), False, code


def _property(scanner: Scanner) -> _Operand:
    text = scanner.property_text()
    if is_string_property(text):
        return f"[\\{text}]", True, None
    if "i" not in scanner.flags:
        return f"\\{text}", False, None
    try:
        written = _folded_property(text)
    except regress.RegressError:
        raise scanner.error("Invalid property name in character class") from None
    scanner.written += len(written)
    if scanner.written > MAX_WRITTEN_LENGTH:
        raise scanner.error("Regular expression too large")
    return written, False, None


@lru_cache(maxsize=256)
def _folded_property(text: str) -> str:
    others = _written_ranges(_together(property_variants(text[2:-1])))
    return f"[{'^' if text.startswith('P') else ''}\\p{text[1:]}{others}]"


def _together(codes: Iterable[int]) -> list[tuple[int, int]]:
    """Join codes that follow each other."""
    ranges: list[tuple[int, int]] = []
    for code in codes:
        if ranges and ranges[-1][1] == code - 1:
            ranges[-1] = (ranges[-1][0], code)
        else:
            ranges.append((code, code))
    return ranges


def _strings(scanner: Scanner) -> _Operand:
    alternatives: list[list[int]] = [[]]
    while not scanner.eat("}"):
        if scanner.eat("|"):
            alternatives.append([])
        else:
            alternatives[-1].append(_character(scanner))
    # The engine does not negate the single characters among strings, so they are written outside of them.
    singles = [codes[0] for codes in alternatives if len(codes) == 1]
    longer = [codes for codes in alternatives if len(codes) != 1]
    if "i" in scanner.flags:
        longer = [[simple_fold(code) for code in codes] for codes in longer]
    written = "".join([_write(code) + _written_others(scanner, code, code) for code in singles])
    if longer:
        written += f"\\q{{{'|'.join(''.join(map(_write, codes)) for codes in longer)}}}"
    return f"[{written}]", bool(longer), None


def _character(scanner: Scanner) -> int:
    character = scanner.take()
    if not character:
        raise scanner.error("Unterminated character class")
    if character == "\\":
        return _escape(scanner)
    if character in _SYNTAX or (character in _DOUBLED and scanner.peek() == character):
        raise scanner.error("Invalid character in character class")
    return ord(character)


def _escape(scanner: Scanner) -> int:
    character = scanner.take()
    if character and character in _ESCAPED:
        return ord(character)
    if character in _SET_CONTROL_ESCAPES:
        return _SET_CONTROL_ESCAPES[character]
    if character == "0" and not (scanner.peek() and scanner.peek() in "0123456789"):
        return 0
    if character == "c" and scanner.peek().isascii() and scanner.peek().isalpha():
        return ord(scanner.take()) % 32
    code = scanner.hex_code(2) if character == "x" else None
    if character == "u":
        code = scanner.unicode_escape(braces=True)
    if code is None:
        raise scanner.error("Invalid escape")
    return code
