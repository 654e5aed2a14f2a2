"""Converts the operands of filters to text, numbers or lists."""

from __future__ import annotations

import re
from collections.abc import Sequence

from liquid import Undefined
from liquid.exceptions import FilterArgumentError

from tavernkit._text.coerce import trim_blanks
from tavernkit.vibe_tavern._liquid_macros.numbers import MAX_DIGITS, to_filter_text, to_text

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
