"""Decorator lines at the start of an entry's content."""

from __future__ import annotations

from functools import lru_cache

from tavernkit._dataclass import dataclass
from tavernkit._text.js_values import WHITESPACE, trim
from tavernkit._text.traced import plain

PARSED_CACHE = 65_536
"""How many contents are kept parsed."""


@dataclass(frozen=True, slots=True)
class Decorator:
    """One ``@@name arguments`` line. A fallback (``@@@``) counts only if the line before it was not recognised."""

    name: str
    arguments: tuple[str, ...] = ()
    fallback: bool = False

    @property
    def joined(self) -> str:
        """The arguments as one text."""
        return " ".join(self.arguments)


@dataclass(frozen=True, slots=True)
class ParsedContent:
    """An entry's content: its decorators, and the text below them."""

    decorators: tuple[Decorator, ...]
    text: str


def parse_content(content: str) -> ParsedContent:
    """Read the decorator lines; the first other line, even an empty one, begins the text."""
    parsed = _parsed(plain(content))
    if type(content) is str:
        return parsed
    end = len(content.rstrip(WHITESPACE))
    return ParsedContent(parsed.decorators, content[end - len(parsed.text) : end])


@lru_cache(maxsize=PARSED_CACHE)
def _parsed(content: str) -> ParsedContent:
    lines = trim(content).split("\n")
    decorators: list[Decorator] = []
    for index, raw in enumerate(lines):
        line = trim(raw)
        if line == "@@@end":
            line = "@@end"
        if not line.startswith("@@"):
            return ParsedContent(tuple(decorators), trim("\n".join(lines[index:])))
        fallback = line.startswith("@@@")
        name, _, rest = line[3 if fallback else 2 :].partition(" ")
        arguments = tuple(part for part in (trim(each) for each in rest.split(",")) if part)
        decorators.append(Decorator(name, arguments, fallback))
    return ParsedContent(tuple(decorators), "")
