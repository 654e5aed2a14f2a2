"""Detects blank texts."""

from __future__ import annotations

from tavernkit._text.blank import trim_blanks


def is_blank(value: object) -> bool:
    """Return True if a value is None or blank text."""
    return value is None or (isinstance(value, str) and not trim_blanks(value))
