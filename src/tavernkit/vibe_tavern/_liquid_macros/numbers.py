"""What counts as a number in templates, and how values are written."""

from __future__ import annotations

import math
import re

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
