"""What is done to a text before it is parsed and after it is expanded."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tavernkit.silly_tavern.macros.environment import MacroEnvironment
from tavernkit.text.traced import join, split, substitute

TextProcessor: TypeAlias = Callable[[str, MacroEnvironment], str]
"""Changes a whole text."""

ELSE_MARKER = "\x00\x1fELSE\x1f\x00"
"""What ``{{else}}`` gives; it splits the branches of an ``if`` and is removed at the end."""

DEFAULT_PRIORITY = 100
"""The priority of a processor that says nothing; 0 to 50 are the engine's own."""


@dataclass(frozen=True, slots=True)
class Processor:
    """A processor of one's own. Lower priorities run first; equal ones in the order they were given."""

    process: TextProcessor
    priority: int = DEFAULT_PRIORITY


_MARKERS = {
    "user": "{{user}}",
    "bot": "{{char}}",
    "char": "{{char}}",
    "group": "{{group}}",
    "charifnotgroup": "{{charIfNotGroup}}",
}
_LEGACY_TIME = re.compile(r"\{\{time_(UTC[+-][0-9]+)\}\}", re.IGNORECASE | re.ASCII)
_MARKER = re.compile(r"<(USER|BOT|CHAR|GROUP|CHARIFNOTGROUP)>", re.IGNORECASE | re.ASCII)
_TRIM = re.compile(r"\{\{trim\}\}", re.IGNORECASE | re.ASCII)


def rewrite_legacy_time(text: str) -> str:
    """Write ``{{time_UTC+2}}`` as ``{{time::UTC+2}}``."""
    return substitute(_LEGACY_TIME, _modern_time, text) if "{{" in text else text


def rewrite_markers(text: str) -> str:
    """Write ``<USER>``, ``<BOT>`` and the other markers of old cards as macros."""
    return substitute(_MARKER, _modern_marker, text) if "<" in text else text


def unescape_braces(text: str) -> str:
    r"""Write ``\{`` and ``\}`` as braces."""
    return text.replace("\\{", "{").replace("\\}", "}") if "\\" in text else text


def remove_trims(text: str) -> str:
    """Remove every ``{{trim}}`` with the line breaks around it."""
    if "{{t" not in text and "{{T" not in text:
        return text
    pieces = split(_TRIM, text)
    last = len(pieces) - 1
    if not last:
        return text
    for index, piece in enumerate(pieces):
        if index:
            piece = _without_leading_breaks(piece)
        if index < last:
            piece = _without_trailing_breaks(piece)
        pieces[index] = piece
    return join("", pieces)


def remove_else_markers(text: str) -> str:
    """Remove what stray ``{{else}}`` left."""
    return text.replace(ELSE_MARKER, "") if "\x00" in text else text


def is_plain(text: str) -> bool:
    """Return True if there is nothing to expand in a text, and nothing to process."""
    # One character is found many times faster than two, and most texts have none of these.
    if "{" in text and "{{" in text:
        return False
    if "\\" in text and ("\\{" in text or "\\}" in text):
        return False
    return "\x00" not in text and ("<" not in text or _MARKER.search(text) is None)


def prepare(text: str) -> str:
    """Run the engine's own processors that come before parsing."""
    return rewrite_markers(rewrite_legacy_time(text))


def complete(text: str) -> str:
    """Run the engine's own processors that come after expansion."""
    return remove_else_markers(remove_trims(unescape_braces(text)))


class Positions:
    """Finds where a position of the prepared text lies in the text as it was given."""

    def __init__(self, text: str) -> None:
        self._starts: list[int] = []
        self._shifts: list[int] = [0]
        shift = 0
        for found in sorted((*_LEGACY_TIME.finditer(text), *_MARKER.finditer(text)), key=lambda each: each.start()):
            new = _modern_time(found) if found[0].startswith("{{") else _modern_marker(found)
            self._starts.append(found.start() + shift)
            shift += len(new) - len(found[0])
            self._shifts.append(shift)

    def original(self, position: int) -> int:
        """The position in the text as it was given."""
        return position - self._shifts[bisect_left(self._starts, position)]


def arrange(own: Sequence[tuple[int, Callable[[str], str]]], added: Iterable[Processor]) -> tuple[TextProcessor, ...]:
    """Put the engine's own processors and the added ones into the order of their priorities."""
    every = [(priority, _ignoring_environment(process)) for priority, process in own]
    every += [(each.priority, each.process) for each in added]
    return tuple(process for _, process in sorted(every, key=lambda each: each[0]))


PREPARING: Sequence[tuple[int, Callable[[str], str]]] = ((10, rewrite_legacy_time), (20, rewrite_markers))
"""The engine's own processors before parsing, with their priorities."""

COMPLETING: Sequence[tuple[int, Callable[[str], str]]] = (
    (10, unescape_braces),
    (20, remove_trims),
    (30, remove_else_markers),
)
"""The engine's own processors after expansion, with their priorities."""


def _ignoring_environment(process: Callable[[str], str]) -> TextProcessor:
    return lambda text, _environment: process(text)


def _modern_time(found: re.Match[str]) -> str:
    return f"{{{{time::{found[1]}}}}}"


def _modern_marker(found: re.Match[str]) -> str:
    return _MARKERS[found[1].lower()]


def _without_leading_breaks(text: str) -> str:
    start = 0
    while text.startswith(("\n", "\r\n"), start):
        start += 1 if text[start] == "\n" else 2
    return text[start:]


def _without_trailing_breaks(text: str) -> str:
    end = len(text)
    while text.endswith("\n", 0, end):
        end -= 2 if text.endswith("\r\n", 0, end) else 1
    return text[:end]
