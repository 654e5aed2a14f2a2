"""Finds the tags with a name in a text, tolerantly."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tavernkit._dataclass import dataclass
from tavernkit._values import LRUCache

_ATTRIBUTE = re.compile(r"""([^\s"'=<>/]+)(?:\s*=\s*("[^"]*"|'[^']*'|[^\s"'>]+))?""", re.ASCII)
_PATTERNS_KEPT = 256
_heads: LRUCache[str, re.Pattern[str]] = LRUCache(_PATTERNS_KEPT)


@dataclass(frozen=True, slots=True)
class FoundTag:
    """One tag in a text."""

    start: int
    end: int
    raw: str
    closing: bool
    attributes: str


def find_tags(text: str, name: str) -> Iterator[FoundTag]:
    """Find opening and closing tags with a name, in any case and spacing."""
    head = _heads.get_or_make(
        name, lambda: re.compile(rf"<[ \t\r\n\f\v]*+(/?)[ \t\r\n\f\v]*+{re.escape(name)}\b", re.IGNORECASE)
    )
    position = 0
    while (match := head.search(text, position)) is not None:
        end = text.find(">", match.end())
        if end < 0:
            return
        # `<x/>` is an opening tag like any other, as in HTML.
        attributes = text[match.end() : end].strip().removesuffix("/").rstrip()
        position = end + 1
        yield FoundTag(
            start=match.start(),
            end=position,
            raw=text[match.start() : position],
            closing=bool(match.group(1)),
            attributes=attributes,
        )


def read_attributes(text: str) -> list[tuple[str, str | None]]:
    """Split a tag's content into names and values (with their quotes); values may be missing."""
    return [(match.group(1), match.group(2)) for match in _ATTRIBUTE.finditer(text)]


def write_tag(name: str, attributes: list[tuple[str, str | None]]) -> str:
    """Write an opening tag."""
    written = [key if value is None else f"{key}={value}" for key, value in attributes]
    return f"<{' '.join([name, *written])}>"
