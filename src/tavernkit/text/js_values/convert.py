"""JavaScript's conversions and comparisons between values.

Values are JSON as Python has it: ``None`` is ``null``, ``int`` and ``float`` are numbers, mappings are objects, lists
and tuples are arrays. :data:`UNDEFINED` is accepted everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tavernkit.text.js_values.numbers import as_float, number_to_string, string_to_number
from tavernkit.text.js_values.strings import compare_strings, join_surrogates
from tavernkit.text.js_values.undefined import UNDEFINED
from tavernkit.values import is_sequence

_MAX_DEPTH = 200


def truthy(value: object) -> bool:
    """Tell what a condition makes of a value (``Boolean(value)``): empty arrays and objects are true."""
    if value is None or value is UNDEFINED or value is False:
        return False
    if isinstance(value, (int, float)):
        return value != 0 and value == value
    return value != "" if isinstance(value, str) else True


def to_string(value: object) -> str:
    """Write a value as text (``String(value)``)."""
    if isinstance(value, str):
        return value
    if value is None:
        return "null"
    if value is UNDEFINED:
        return "undefined"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return number_to_string(value)
    if is_sequence(value):
        return join(value)
    return "[object Object]"


def join(items: Sequence[object], separator: str = ",", *, _depth: int = 0) -> str:
    """Join the items of an array (``Array#join``): ``null`` and ``undefined`` are empty, inner arrays use commas."""
    if _depth > _MAX_DEPTH:
        return ""

    def text(item: object) -> str:
        if item is None or item is UNDEFINED:
            return ""
        return join(item, _depth=_depth + 1) if is_sequence(item) else to_string(item)

    return separator.join(text(item) for item in items)


def to_number(value: object) -> float:
    """Convert a value to a number (``Number(value)``)."""
    if isinstance(value, str):
        return string_to_number(value)
    if isinstance(value, (int, float)):
        return as_float(value)
    if value is None:
        return 0.0
    return string_to_number(join(value)) if is_sequence(value) else math.nan


def type_of(value: object) -> str:
    """Name the type of a value (``typeof``)."""
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, (int, float)):
        return "number"
    if isinstance(value, str):
        return "string"
    return "undefined" if value is UNDEFINED else "object"


def strict_equals(left: object, right: object) -> bool:
    """Compare with ``===``: no conversion, arrays and objects by identity."""
    kind = type_of(left)
    if kind != type_of(right):
        return False
    if kind == "number":
        return to_number(left) == to_number(right)
    return left is right if kind == "object" else left == right


def loose_equals(left: object, right: object) -> bool:
    """Compare with ``==``: numbers, text and booleans meet as numbers, arrays and objects as their text."""
    if left is None or left is UNDEFINED or right is None or right is UNDEFINED:
        return (left is None or left is UNDEFINED) and (right is None or right is UNDEFINED)
    left_kind, right_kind = type_of(left), type_of(right)
    if left_kind == right_kind:
        return strict_equals(left, right)
    if left_kind == "boolean":
        return loose_equals(to_number(left), right)
    if right_kind == "boolean":
        return loose_equals(left, to_number(right))
    if left_kind == "object":
        return loose_equals(to_string(left), right)
    if right_kind == "object":
        return loose_equals(left, to_string(right))
    return to_number(left) == to_number(right)


def less_than(left: object, right: object) -> bool:
    """Compare with ``<``: two texts by UTF-16 code units, anything else as numbers (NaN is never less)."""
    left, right = _primitive(left), _primitive(right)
    if isinstance(left, str) and isinstance(right, str):
        return compare_strings(left, right) < 0
    return to_number(left) < to_number(right)


def less_or_equal(left: object, right: object) -> bool:
    """Compare with ``<=``."""
    left, right = _primitive(left), _primitive(right)
    if isinstance(left, str) and isinstance(right, str):
        return compare_strings(left, right) <= 0
    return to_number(left) <= to_number(right)


def add(left: object, right: object) -> str | float:
    """Add with ``+``: if either side is text (or becomes text), both are joined as text."""
    left, right = _primitive(left), _primitive(right)
    if isinstance(left, str) or isinstance(right, str):
        return join_surrogates(to_string(left) + to_string(right))
    return to_number(left) + to_number(right)


def _primitive(value: object) -> object:
    return to_string(value) if type_of(value) == "object" and value is not None else value
