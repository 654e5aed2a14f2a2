"""Classes of ``v`` mode: nested classes, intersections, differences and strings.

They are checked here and written anew for the engine, with every character as an escape.
"""

from __future__ import annotations

from collections.abc import Iterable

from tavernkit.text.js_regex.folding import NOT_WORD
from tavernkit.text.js_regex.limits import MAX_DEPTH
from tavernkit.text.js_regex.nodes import SetClass
from tavernkit.text.js_regex.scanner import Scanner
from tavernkit.text.js_regex.surrogates import engine_ranges, stand_in

STRING_PROPERTIES = ("Basic_Emoji", "Emoji_Keycap_Sequence", "RGI_")
"""How the names of the properties begin that match strings."""

_SYNTAX = frozenset("()[]{}/-\\|")
_DOUBLED = frozenset("&!#$%*+,.:;<=>?@^`~")
_ESCAPED = frozenset("&-!#%,:;<=>@`~^$\\.*+?()[]{}|/")
_CONTROL = {"f": 0x0C, "n": 0x0A, "r": 0x0D, "t": 0x09, "v": 0x0B, "b": 0x08}
_OPERATORS = ("&&", "--")

_Operand = tuple[str, bool, int | None]
"""What to write, whether it may match strings, and its code if it is one character."""


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
        strings = _combined(strings, own_strings, operator, first=count == 0)
        count += 1
    if negated and strings:
        raise scanner.error("Negated character class may contain strings")
    return SetClass(f"[{'^' if negated else ''}{written}]", strings)


def _combined(before: bool, own: bool, operator: str | None, *, first: bool) -> bool:
    """Tell whether a class may match strings, with one more operand."""
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
    return _written_ranges(((first, last),))


def _written_ranges(ranges: Iterable[tuple[int, int]]) -> str:
    parts = [part for first, last in ranges for part in engine_ranges(first, last)]
    return "".join([f"{_written(low)}-{_written(high)}" for low, high in parts])


def _written(code: int) -> str:
    return f"\\u{{{stand_in(code):x}}}"


def _operand(scanner: Scanner, depth: int) -> _Operand:
    if scanner.eat("["):
        inner = parse_set_class(scanner, depth + 1)
        return inner.source, inner.strings, None
    if scanner.eat("\\q{"):
        return _strings(scanner)
    if scanner.peek() == "\\" and scanner.peek(1) in ("p", "P"):
        scanner.at += 1
        text = scanner.property_text()
        return f"\\{text}", text[2:].startswith(STRING_PROPERTIES), None
    if scanner.peek() == "\\" and scanner.peek(1) and scanner.peek(1) in "dDsSwW":
        scanner.at += 2
        escape = scanner.text[scanner.at - 2 : scanner.at]
        # In a class the engine would add the letters that ſ and the Kelvin sign are variants of.
        folded = escape == "\\W" and "i" in scanner.flags
        return f"[{_written_ranges(NOT_WORD)}]" if folded else escape, False, None
    code = _character(scanner)
    return _written(code), False, code


def _strings(scanner: Scanner) -> _Operand:
    alternatives: list[list[int]] = [[]]
    while not scanner.eat("}"):
        if scanner.eat("|"):
            alternatives.append([])
        else:
            alternatives[-1].append(_character(scanner))
    written = "|".join("".join(map(_written, codes)) for codes in alternatives)
    return f"\\q{{{written}}}", any(len(codes) != 1 for codes in alternatives), None


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
    if character in _CONTROL:
        return _CONTROL[character]
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
