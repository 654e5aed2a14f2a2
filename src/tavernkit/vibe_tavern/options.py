"""Reads options that people write by hand: names, numbers and lists of names, tolerantly."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from tavernkit.errors import ConfigError
from tavernkit.text.blank import trim_blanks
from tavernkit.values import is_mapping, is_sequence

_INTEGER = re.compile(r"[+-]?[0-9]{1,300}")


def option_name(value: object) -> str:
    """Normalise a name: trimmed, lower case, ``_`` for ``-``."""
    return trim_blanks(str(value)).lower().replace("-", "_")


def integer(value: object) -> int | None:
    """Read a whole number: an integer, a float (cut), or integer text; anything else is nothing."""
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        return int(value) if value == value and abs(value) != float("inf") else None
    if isinstance(value, str):
        text = trim_blanks(value)
        return int(text) if _INTEGER.fullmatch(text) else None
    return None


def positive_integer(value: object, *, default: int | None = None) -> int | None:
    """Read a whole number above zero; anything else is the default."""
    number = integer(value)
    return number if number is not None and number > 0 else default


def positive_number(value: object, *, default: float | None = None) -> float | None:
    """Read a number above zero; anything else is the default."""
    if isinstance(value, (int, float, str)) and not isinstance(value, bool):
        try:
            number = float(value)
        except ValueError:
            return default
        if 0 < number < float("inf"):
            return number
    return default


def names(value: object) -> list[str] | None:
    """Read a list of names: a list, or text with commas. Trimmed, without blanks; nothing stays nothing."""
    if value is None:
        return None
    parts: Iterable[object] = value.split(",") if isinstance(value, str) else value if is_sequence(value) else (value,)
    return [name for name in (trim_blanks(str(part)) for part in parts if part is not None) if name]


def merge_names(left: object, right: object) -> list[str]:
    """Merge lists of names: nothing and an empty list clear, otherwise each name once."""
    old, new = names(left), names(right)
    return list(dict.fromkeys([*(old or ()), *new])) if new else []


def section(value: object, name: str) -> Mapping[str, object]:
    """Take a configuration section: a mapping, or nothing."""
    if value is None:
        return {}
    if not is_mapping(value):
        raise ConfigError(f"{name} must be a mapping, not {type(value).__name__}", code="SECTION_NOT_A_MAPPING")
    return value
