"""A text before and after it is parsed: escapes, offsets, the tags of blocks, the ``else`` of an ``if``."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from heapq import heappop, heappush
from typing import TypeAlias

from tavernkit._dataclass import dataclass
from tavernkit._text.js_values import is_basic
from tavernkit._text.traced import join, plain, split, substitute
from tavernkit.silly_tavern._macros.environment import MacroEnvironment
from tavernkit.silly_tavern._macros.parser import ParsedMacro, ParsedText, parse
from tavernkit.silly_tavern._macros.registry import MacroRegistry


class Source:
    """A text and its top-level macros, in order; parsed on first use.

    ``position`` and ``offset`` are where the text starts in the engine's original text, in characters and in UTF-16
    code units.
    """

    __slots__ = ("_astral", "_closers", "_else", "_macros", "_parsed", "_partners", "offset", "position", "text")

    def __init__(self, text: str, *, position: int = 0, offset: int = 0) -> None:
        self.text = text
        self.position = position
        self.offset = offset
        self._parsed: ParsedText | None = None
        self._macros: list[ParsedMacro] | None = None
        self._astral: list[int] | None = None
        self._partners: list[int] | None = None
        self._closers: dict[str, list[int]] = {}
        self._else: tuple[list[int], dict[int, list[int]]] | None = None

    @property
    def parsed(self) -> ParsedText:
        """The parse result."""
        if self._parsed is None:
            self._parsed = parse(plain(self.text))
        return self._parsed

    def take_parsed(self, same: Source) -> None:
        """Use the parse result of an equal text."""
        self._parsed = same.parsed

    @property
    def clean(self) -> bool:
        """True if the text has no errors, so that its parts parse separately as they do here."""
        return self.parsed.clean

    @property
    def top(self) -> list[ParsedMacro]:
        """The macros that are not inside another one, complete or not."""
        return self.parsed.macros

    @property
    def macros(self) -> list[ParsedMacro]:
        """The complete macros that are not inside another complete one."""
        if self._macros is None:
            self._macros = self.top if self.clean else flatten(self.top)
        return self._macros

    def trusts(self, macro: ParsedMacro) -> bool:
        """Return True if the macros inside this one equal those of its arguments when parsed separately."""
        return macro.clean and not self.parsed.lexing_errors

    def part(self, macros: list[ParsedMacro]) -> Source:
        """Return the same text with only these macros: those of one argument."""
        part = Source(self.text, position=self.position, offset=self.offset)
        part._parsed = ParsedText(self.text, macros, [], [])
        part._astral = self._find_astral()
        return part

    def offset_at(self, index: int) -> int:
        """Return the offset of a character in the original text, in UTF-16 code units."""
        astral = self._find_astral()
        return self.offset + index + (bisect_left(astral, index) if astral else 0)

    def _find_astral(self) -> list[int]:
        """Return the positions of characters with two code units."""
        if self._astral is None:
            text = self.text
            self._astral = [] if is_basic(text) else [at for at, each in enumerate(text) if each > "\uffff"]
        return self._astral

    def partners(self, registry: MacroRegistry) -> list[int]:
        """For each tag that can open a block, the index of its closing tag, and vice versa.

        -1 means none. Only tags with the same name pair, ignoring case.
        """
        if self._partners is None:
            self._partners = self._match_tags(registry)
        return self._partners

    def has_closing(self, name: str, registry: MacroRegistry) -> bool:
        """Return True if any tag closes this name."""
        self.partners(registry)
        return name.lower() in self._closers

    def closers(self, key: str) -> Sequence[int]:
        """Return the unmatched closing tags with a name."""
        return self._closers.get(key, ())

    def _match_tags(self, registry: MacroRegistry) -> list[int]:
        partners = [-1] * len(self.macros)
        open_tags: dict[str, list[int]] = {}
        for index, macro in enumerate(self.macros):
            if macro.prefix or macro.name is None:
                continue
            key = macro.name.lower()
            if self.is_closing(macro):
                self._closers.setdefault(key, []).append(index)
                if open_tags.get(key):
                    opener = open_tags[key].pop()
                    partners[index], partners[opener] = opener, index
            elif takes_scope(macro, registry):
                open_tags.setdefault(key, []).append(index)
        return partners

    def is_closing(self, macro: ParsedMacro) -> bool:
        """Return True if a macro is a closing tag: ``{{/name}}``, or ``{{///}}`` for a comment.

        As in SillyTavern, any comment that begins with a slash is one: ``{{// /x}}`` stays in the text.
        """
        if macro.prefix:
            return False
        if "/" in macro.flags:
            return True
        args = macro.args
        return macro.name == "//" and bool(args) and not args[0].empty and self.text[args[0].start] == "/"

    def find_else(self, low: int, high: int) -> int:
        """The index of the ``{{else}}`` that splits the macros between two indexes, or -1."""
        if self._else is None:
            self._else = self._index_else()
        depths, by_depth = self._else
        candidates = by_depth.get(depths[low]) if low < len(depths) else None
        if not candidates:
            return -1
        found = bisect_left(candidates, low)
        return candidates[found] if found < len(candidates) and candidates[found] < high else -1

    def _index_else(self) -> tuple[list[int], dict[int, list[int]]]:
        """Index the depth of nested ``if`` before each macro, and the ``else`` at each depth.

        Unlike everywhere else, only lower-case names count here; flags and arguments of an ``else`` do not matter. A
        stray ``{{/if}}`` makes the depth negative, so that no later ``else`` splits the text.
        """
        depths: list[int] = []
        by_depth: dict[int, list[int]] = {}
        depth = 0
        for index, macro in enumerate(self.top):
            depths.append(depth)
            if not macro.complete or macro.prefix:
                continue
            if macro.name == "else":
                by_depth.setdefault(depth, []).append(index)
            elif macro.name == "if":
                if "/" in macro.flags:
                    depth -= 1
                elif len(macro.args) == 1:
                    depth += 1
        return depths, by_depth


class FreeClosers:
    """The closing tags of one level that are still available for tags that cannot have a block."""

    def __init__(self, source: Source, high: int, registry: MacroRegistry) -> None:
        self._source = source
        self._high = high
        self._partners = source.partners(registry)
        self._looked_at: dict[str, int] = {}
        self._waiting: dict[str, list[tuple[int, int]]] = {}
        self._free: dict[str, list[int]] = {}

    def claim(self, key: str, opener: int) -> int | None:
        """Take the first closing tag after ``opener`` that does not close a later tag. Call from left to right."""
        waiting, free = self._waiting.setdefault(key, []), self._free.setdefault(key, [])
        while waiting and waiting[0][0] < opener:
            heappush(free, heappop(waiting)[1])
        while free and free[0] < opener:
            heappop(free)
        # Only as many as necessary are checked: nested blocks share the ones before them.
        closers, partners = self._source.closers(key), self._partners
        at = max(self._looked_at.get(key, 0), bisect_left(closers, opener))
        while not free and at < len(closers) and closers[at] < self._high:
            closer = closers[at]
            at += 1
            if partners[closer] < opener:
                free.append(closer)
            else:
                heappush(waiting, (partners[closer], closer))
        self._looked_at[key] = at
        return heappop(free) if free else None


def takes_scope(macro: ParsedMacro, registry: MacroRegistry) -> bool:
    """Return True if a call can have a block as its last argument; unknown names can.

    Only the registry is asked, as in SillyTavern: the dynamic macros of an expansion count as unknown.
    """
    known = registry.lookup((macro.name or "").lower())
    return known is None or known[1].takes_scope(len(macro.args))


def flatten(macros: list[ParsedMacro]) -> list[ParsedMacro]:
    """Replace incomplete macros by the complete ones inside them."""
    flat: list[ParsedMacro] = []
    waiting = macros[::-1]
    while waiting:
        macro = waiting.pop()
        if macro.complete:
            flat.append(macro)
            continue
        spans = macro.args if macro.value is None else (*macro.args, macro.value)
        waiting.extend(inner for span in reversed(spans) for inner in reversed(span.macros))
    return flat


TextProcessor: TypeAlias = Callable[[str, MacroEnvironment], str]
"""Changes a whole text."""

ELSE_MARKER = "\x00\x1fELSE\x1f\x00"
"""The result of a stray ``{{else}}``. It is removed at the end, unless a macro around it has changed it."""

DEFAULT_PRIORITY = 100
"""The default priority of a processor; 0 to 50 are the engine's own."""


@dataclass(frozen=True, slots=True)
class Processor:
    """A custom processor. Lower priorities run first; equal ones in the order given."""

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
    """Rewrite ``{{time_UTC+2}}`` as ``{{time::UTC+2}}``, keeping its case: with ``utc`` it gives the local time."""
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
    """Remove the marks of stray ``{{else}}``."""
    return text.replace(ELSE_MARKER, "") if "\x00" in text else text


def is_plain(text: str) -> bool:
    """Return True if there is nothing to expand in a text, and nothing to process."""
    # Searching for one character is many times faster than for two, and most texts have none of these.
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
    """Maps positions of the prepared text to the original text."""

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
        """Return the position in the original text."""
        return position - self._shifts[bisect_left(self._starts, position)]


def arrange(own: Sequence[tuple[int, Callable[[str], str]]], added: Iterable[Processor]) -> tuple[TextProcessor, ...]:
    """Sort the engine's own processors and the added ones by priority."""
    every = [(priority, _ignoring_environment(process)) for priority, process in own]
    every += [(each.priority, each.process) for each in added]
    return tuple(process for _, process in sorted(every, key=lambda each: each[0]))


PREPARING: Sequence[tuple[int, Callable[[str], str]]] = ((10, rewrite_legacy_time), (20, rewrite_markers))
"""The engine's own processors before parsing, with their priorities."""

COMPLETING: Sequence[tuple[int, Callable[[str], str]]] = (
    (10, unescape_braces),
    # After the escapes, so that an escaped trim still trims.
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
