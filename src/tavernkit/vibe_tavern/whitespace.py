"""What counts as blank in this room: the ASCII set that the wire formats here agree on."""

from __future__ import annotations

WHITESPACE = "\0\t\n\v\f\r "
"""Ideographic and no-break spaces are content, not padding."""


def trim(text: str) -> str:
    """Remove blanks from both ends."""
    return text.strip(WHITESPACE)


def is_blank(value: object) -> bool:
    """Tell whether a value is nothing, or text that is nothing but blanks."""
    return value is None or (isinstance(value, str) and not trim(value))
