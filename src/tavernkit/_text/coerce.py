"""Trims names and reads options that people and programs write in many ways: names, codes, spellings of yes and no.

Nothing here raises: unreadable values give the default.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

T = TypeVar("T")
D = TypeVar("D")

_BOOLEANS: Mapping[str, bool] = {
    **dict.fromkeys(("1", "true", "yes", "y", "on"), True),
    **dict.fromkeys(("0", "false", "no", "n", "off"), False),
}
BLANKS = "\0\t\n\v\f\r "
"""The characters that are trimmed; no-break and ideographic spaces are not."""


def trim_blanks(text: str) -> str:
    """Remove blanks at both ends."""
    return text.strip(BLANKS)


def boolean(value: object, default: D) -> bool | D:
    """Read yes or no: a boolean, or one of 1 true yes y on / 0 false no n off in any case."""
    if isinstance(value, bool):
        return value
    return _BOOLEANS.get(_name(value), default)


def by_name_or_code(value: object, codes: tuple[T, ...], names: Mapping[str, T], default: D) -> T | D:
    """Read a choice by its name, in any case, or by its index in ``codes``."""
    name = _name(value)
    if len(name) == 1 and name in "0123456789":
        return codes[int(name)] if int(name) < len(codes) else default
    return names.get(name, default)


def _name(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        return ""
    return trim_blanks(str(value)).lower()
