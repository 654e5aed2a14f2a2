"""Blanks in names, tags and lists: ASCII white space and NUL only."""

from __future__ import annotations

BLANKS = "\0\t\n\v\f\r "
"""The characters that are trimmed; no-break and ideographic spaces are not."""


def trim_blanks(text: str) -> str:
    """Remove blanks at both ends."""
    return text.strip(BLANKS)
