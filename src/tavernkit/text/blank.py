"""What counts as blank in names, tags and lists: ASCII white space and NUL, nothing else."""

from __future__ import annotations

BLANKS = "\0\t\n\v\f\r "
"""The characters that are trimmed; no-break and ideographic spaces are text."""


def trim_blanks(text: str) -> str:
    """Remove blanks at both ends."""
    return text.strip(BLANKS)


def presence(value: object) -> object:
    """Return a value unchanged, or ``None`` if it is blank: nothing, blank text, an empty list or mapping."""
    if isinstance(value, str):
        return value if trim_blanks(value) else None
    if isinstance(value, (list, tuple, dict)):
        return value or None  # pyright: ignore[reportUnknownVariableType]  # any contents
    return value
