"""The text of a block: trimmed and moved to the left margin, as SillyTavern does it."""

from __future__ import annotations

from tavernkit.text.js_values import trim, trim_start
from tavernkit.text.traced import join

_FALSE = frozenset(("false", "off", "0"))


def dedent(text: str) -> str:
    """Remove the indentation of the first line that says anything from all lines, and trim the whole."""
    if "\n" not in text:
        return trim(text)
    lines = text.split("\n")
    margin = next((_indentation(line) for line in lines if trim(line)), 0)
    if not margin:
        return trim(text)
    moved = [line[margin:] if _indentation(line) >= margin else trim_start(line) for line in lines]
    return trim(join("\n", moved))


def is_falsy(text: str) -> bool:
    """Return True if a condition's text means no."""
    return not text or trim(text).lower() in _FALSE


def _indentation(line: str) -> int:
    return len(line) - len(line.lstrip(" \t"))
