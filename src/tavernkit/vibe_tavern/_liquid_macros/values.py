"""Reads the values of templates as numbers, texts and operands of filters, and writes them as text."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from liquid import Undefined
from liquid.exceptions import FilterArgumentError

from tavernkit._text.coerce import trim_blanks
from tavernkit._values import is_mapping, is_sequence

_INTEGER = re.compile(r"[+-]?[0-9]+")
_FLOAT = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
MAX_DIGITS = 300
"""Longer numerals stay text."""


def to_number(value: object) -> int | float | None:
    """Read a number, also from text; None for anything else."""
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        return value
    if isinstance(value, str):
        text = trim_blanks(value)
        if len(text) > MAX_DIGITS:
            return None
        if _INTEGER.fullmatch(text):
            return int(text)
        if _FLOAT.fullmatch(text):
            return float(text)
    return None


def order(left: object, right: object) -> int | None:
    """Compare two numbers or two texts: below zero, zero or above zero; None if neither comes first."""
    if isinstance(left, bool) or isinstance(right, bool):
        return None
    if isinstance(left, (int, float)) and isinstance(right, (int, float)):
        return (left > right) - (left < right)
    if isinstance(left, str) and isinstance(right, str):
        return (left > right) - (left < right)
    return None


def equal(left: object, right: object) -> bool:
    """Return True if two values are equal; booleans are not numbers."""
    return left is right if isinstance(left, bool) or isinstance(right, bool) else left == right


def to_text(value: object) -> str:
    """Write a value as a template prints it: None is blank, lists are joined."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, range):
        return f"{value.start}..{value.stop - 1}"
    if is_sequence(value):
        return "".join(to_text(item) for item in value)
    if isinstance(value, float):
        return _float_text(value)
    return _inspect(value) if is_mapping(value) else str(value)


def to_filter_text(value: object) -> object:
    """Write a value as text for filters: lists and mappings with their brackets."""
    if value is None or isinstance(value, (bool, float, range)):
        return to_text(value)
    return _inspect(value) if is_mapping(value) or is_sequence(value) else value


def _float_text(value: float) -> str:
    """Write a float as Ruby does: with a decimal point even before an exponent."""
    if not math.isfinite(value):
        return {"inf": "Infinity", "-inf": "-Infinity"}.get(str(value), "NaN")
    mantissa, exponent, power = repr(value).partition("e")
    return f"{mantissa}.0e{power}" if exponent and "." not in mantissa else repr(value)


def _inspect(value: object) -> str:
    if is_mapping(value):
        return "{" + ", ".join(f"{_inspect(key)}=>{_inspect(item)}" for key, item in value.items()) + "}"
    if is_sequence(value):
        return "[" + ", ".join(_inspect(item) for item in value) + "]"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        return f'"{escaped}"'
    return "nil" if value is None else to_text(value)


_TEXT_OPERANDS = frozenset(("append", "prepend", "remove", "replace", "replace_first", "replace_last", "split"))
_TEXT_FILTERS = _TEXT_OPERANDS | {
    *("capitalize", "downcase", "escape", "escape_once", "h", "lstrip", "newline_to_br", "rstrip", "strip"),
    *("strip_html", "strip_newlines", "truncate", "truncatewords", "upcase", "url_decode", "url_encode"),
    *("base64_decode", "base64_encode", "remove_first", "remove_last", "squish"),
}
"""Filters that read their input as text; the first ones also read their arguments as text."""

_NUMBER_FILTERS = frozenset(
    ("abs", "at_least", "at_most", "ceil", "divided_by", "floor", "minus", "modulo", "plus", "round", "times")
)
_LIST_FILTERS = frozenset(
    (
        *("compact", "concat", "find", "find_index", "has", "join", "map", "reject", "reverse", "sort"),
        *("sort_natural", "sum", "uniq", "where"),
    )
)
_DECIMAL = re.compile(r"-?[0-9]+\.[0-9]+")
_LEADING_INTEGER = re.compile(r"[+-]?[0-9]+")


def read_operands(name: str, operands: Sequence[object]) -> Sequence[object]:
    """Convert the input and the arguments of a filter."""
    if name in _NUMBER_FILTERS:
        return [to_operand_number(each) for each in operands]
    if name in _LIST_FILTERS:
        return [[] if operands[0] is None else operands[0], *operands[1:]] if operands else operands
    count = len(operands) if name in _TEXT_OPERANDS else 1 if name in _TEXT_FILTERS else 0
    texts = [each if isinstance(each, Undefined) else to_filter_text(each) for each in operands[:count]]
    return [*texts, *operands[count:]]


def given(value: object) -> object:
    """Return None for undefined values; raise if that is an error."""
    if isinstance(value, Undefined):
        value.poke()
        return None
    return value


def to_operand_number(value: object) -> object:
    """Read a number; from text, the leading number; booleans are not numbers."""
    if isinstance(value, bool):
        return 0
    if not isinstance(value, str):
        return value
    text = trim_blanks(value)
    if _DECIMAL.fullmatch(text):
        return text
    match = _LEADING_INTEGER.match(text)
    return int(match.group()) if match and len(match.group()) <= MAX_DIGITS else 0


def to_whole_number(value: object) -> int:
    """Read a whole number, also from text; anything else is an error."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    text = trim_blanks(to_text(given(value)))
    if not _LEADING_INTEGER.fullmatch(text) or len(text) > MAX_DIGITS:
        raise FilterArgumentError("invalid integer", token=None)
    return int(text)
