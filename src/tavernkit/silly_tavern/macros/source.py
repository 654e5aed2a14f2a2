"""A parsed text with what its documents ask of it: offsets, the tags of blocks, the ``else`` of an ``if``."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from heapq import heappop, heappush

from tavernkit.silly_tavern.macros.parser import ParsedMacro, ParsedText, parse
from tavernkit.silly_tavern.macros.registry import MacroRegistry
from tavernkit.text.js_values import is_basic
from tavernkit.text.traced import plain


class Source:
    """A text and the macros at its top, in order; parsed when they are first asked for.

    ``position`` and ``offset`` say where the text starts in the text that was given to the engine, in characters and
    in UTF-16 code units.
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
        """What the parser says."""
        if self._parsed is None:
            self._parsed = parse(plain(self.text))
        return self._parsed

    def take_parsed(self, same: Source) -> None:
        """Take what the parser says of an equal text."""
        self._parsed = same.parsed

    @property
    def clean(self) -> bool:
        """Whether there is no error in the text, so that its parts parse on their own as they do here."""
        return self.parsed.clean

    @property
    def top(self) -> list[ParsedMacro]:
        """The macros that are in no other, complete or not."""
        return self.parsed.macros

    @property
    def macros(self) -> list[ParsedMacro]:
        """The complete macros that are in no other complete one."""
        if self._macros is None:
            self._macros = self.top if self.clean else flatten(self.top)
        return self._macros

    def trusts(self, macro: ParsedMacro) -> bool:
        """Return True if the macros inside this one are what its arguments parse to on their own."""
        return macro.clean and not self.parsed.lexing_errors

    def part(self, macros: list[ParsedMacro]) -> Source:
        """The same text seen as having only these macros: those of one argument."""
        part = Source(self.text, position=self.position, offset=self.offset)
        part._parsed = ParsedText(self.text, macros, [], [])
        part._astral = self._find_astral()
        return part

    def offset_at(self, index: int) -> int:
        """The offset of a character in the text that was given, in UTF-16 code units."""
        astral = self._find_astral()
        return self.offset + index + (bisect_left(astral, index) if astral else 0)

    def _find_astral(self) -> list[int]:
        """Where characters are that take two code units."""
        if self._astral is None:
            text = self.text
            self._astral = [] if is_basic(text) else [at for at, each in enumerate(text) if each > "\uffff"]
        return self._astral

    def partners(self, registry: MacroRegistry) -> list[int]:
        """For each tag that can open a block, the index of the tag that closes it, and the other way round.

        -1 stands for none. Only tags of the same spelling pair, whatever their case.
        """
        if self._partners is None:
            self._partners = self._match_tags(registry)
        return self._partners

    def has_closing(self, name: str, registry: MacroRegistry) -> bool:
        """Return True if any tag closes this name."""
        self.partners(registry)
        return name.lower() in self._closers

    def closers(self, key: str) -> Sequence[int]:
        """The closing tags with a name, once the tags are matched."""
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
        """Return True if a macro is a closing tag: ``{{/name}}``, or ``{{///}}`` for a comment."""
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
        """Depth of nested ``if`` in front of each macro, and where there is an ``else`` at each depth."""
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
    """The closing tags of one level that a tag which can have no block may still take."""

    def __init__(self, source: Source, high: int, registry: MacroRegistry) -> None:
        self._source = source
        self._high = high
        self._partners = source.partners(registry)
        self._looked_at: dict[str, int] = {}
        self._waiting: dict[str, list[tuple[int, int]]] = {}
        self._free: dict[str, list[int]] = {}

    def claim(self, key: str, opener: int) -> int | None:
        """Take the first closing tag behind ``opener`` that does not close a tag behind it. Ask from left to right."""
        waiting, free = self._waiting.setdefault(key, []), self._free.setdefault(key, [])
        while waiting and waiting[0][0] < opener:
            heappush(free, heappop(waiting)[1])
        while free and free[0] < opener:
            heappop(free)
        # Only as many are looked at as it takes: blocks inside each other have the same ones before them.
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
    """Return True if a call can have a block as its last argument; names nobody knows can."""
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
