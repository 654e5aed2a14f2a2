"""Character classes, and escapes for characters."""

from __future__ import annotations

from tavernkit._text.js_regex.class_sets import parse_set_class
from tavernkit._text.js_regex.nodes import CharClass, ClassItem, Node, SetClass
from tavernkit._text.js_regex.scanner import Scanner, is_string_property

_CONTROL_ESCAPES = {"f": 0x0C, "n": 0x0A, "r": 0x0D, "t": 0x09, "v": 0x0B}
_SET_ESCAPES = frozenset("dDsSwW")
_SYNTAX_CHARACTERS = frozenset("^$\\.*+?()[]{}|/")
_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
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
    if letter in _LETTERS or (in_class and not scanner.unicode and letter in _CLASS_CONTROL):
        scanner.at += 1
        return ord(letter) % 32
    if scanner.unicode:
        raise scanner.error("Invalid unicode escape")
    # On the web a lone \c is a backslash followed by a c.
    scanner.at -= 1
    return 0x5C
