"""How lines of a chat are written: one line that is built with traced texts shows the sources of all lines like it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from tavernkit._text.traced import Origin, Piece, pieces_of, with_pieces
from tavernkit.prompt._block import Block
from tavernkit.prompt._steady_texts import is_steady

FEW_LINES = 6
"""Fewer lines of a kind are built one by one: it is not certain that they have a form."""

MAX_FORMS = 256
"""How many forms are kept from map to map."""


class LineForm(NamedTuple):
    """What is written before and after the words of a line."""

    before: Sequence[Piece]
    after: Sequence[Piece]
    """With offsets from the end of the words."""
    name: Origin | None
    """The name in the line that this was found in; each line has its own."""

    def write(self, content: str, words: Origin, name: Origin) -> str:
        """Trace a line.

        Args:
            content: The line as it is sent.
            words: The place of its words.
            name: The place of its name.
        """
        start = self.before[-1][1] if self.before else 0
        end = start + len(words.text)
        pieces: list[Piece] = [*self.before, (start, end, words, 0, None)]
        for low, high, origin, offset, via in self.after:
            pieces.append((end + low, end + high, origin, offset, via))
        if self.name is not None:
            for index, (low, high, origin, offset, via) in enumerate(pieces):
                if origin is self.name:
                    pieces[index] = low, high, name, offset, via
        return with_pieces(content, tuple(pieces))


def form_of(text: str, start: int, words: Origin, name: Origin) -> LineForm | None:
    """Return the form of a line; None if it may be written in another way for another line.

    Args:
        text: The line, traced.
        start: Where its words begin.
        words: The place of its words.
        name: The place of its name.
    """
    end = start + len(words.text)
    before: list[Piece] = []
    after: list[Piece] = []
    own: Origin | None = None
    found = False
    for low, high, origin, offset, via in pieces_of(text):
        if low == start and high == end and origin is not None:
            if via is not None or offset or not _same(origin, words):
                return None
            found = True
            continue
        if origin is not None and _same(origin, name):
            own = own or origin
            if origin is not own or not is_steady(None, via, 0):
                return None
        elif not is_steady(origin, via, high - low):
            return None
        if high <= start:
            before.append((low, high, origin, offset, via))
        elif low >= end:
            after.append((low - end, high - end, origin, offset, via))
        else:
            return None
    return LineForm(before, after, own) if found else None


def _same(one: Origin, other: Origin) -> bool:
    return (one.kind, one.name, one.pointer) == (other.kind, other.name, other.pointer)


class KnownLine:
    """A line of the chat that is a block of a plan. Blocks of a chat are the same objects in the next plan."""

    __slots__ = ("block", "chat", "form", "kind", "line", "place", "text", "whole")

    def __init__(self, block: Block, place: int, line: object, chat: str, *, whole: bool, kind: object = None) -> None:
        self.block = block
        self.place = place
        self.line = line
        self.chat = chat
        self.whole = whole
        """True if the block is the unchanged line."""
        self.kind = kind
        """What decides how it is written, if that may be as other lines are."""
        self.form: LineForm | None = None
        """How it is written, if it is not whole; it never changes once it is found."""
        self.text = ""
        """The traced line; empty until it is asked for."""


class WrittenLines:
    """Lines that are not sent as they are stored, by the forms in which they are written.

    Args:
        forms: Forms that are known, by the kinds of lines that they are for.
        formless: Kinds that have no form; those that are found are added.
        lines: The lines, with the indices of their blocks in the plan.
    """

    def __init__(
        self, forms: Mapping[object, LineForm], formless: set[object], lines: Iterable[tuple[int, KnownLine]]
    ) -> None:
        self.forms = dict(forms) if len(forms) < MAX_FORMS else {}
        self._formless = formless
        self.alike: list[KnownLine] = []
        """Lines that need not be built: their forms are known, or will be those of their examples."""
        self.examples: list[tuple[int, KnownLine]] = []
        """Of each kind whose form is not known, a line that shows it."""
        self.single: list[tuple[int, KnownLine]] = []
        """Lines that have to be built: there are no others like them."""
        kinds: dict[object, list[tuple[int, KnownLine]]] = {}
        for number, line in lines:
            kinds.setdefault(line.kind, []).append((number, line))
        for kind, members in kinds.items():
            if kind in self.forms:
                self.alike += [line for _, line in members]
            elif kind in formless or 1 < len(members) < FEW_LINES:
                self.single += members
            else:
                self.examples.append(members[-1])
                self.alike += [line for _, line in members[:-1]]
        self._fill()

    def learn(self, contents: Sequence[str], origins: Callable[[KnownLine], tuple[Origin, Origin]]) -> bool:
        """Learn the forms of lines from examples; return False if lines are left without one.

        Args:
            contents: The texts of all blocks of the plan, traced where they have to be.
            origins: Returns the places of a line's words and of its name.
        """
        for number, line in self.examples:
            words, name = origins(line)
            form = form_of(contents[number], line.block.content.index(words.text), words, name)
            if form is not None:
                self.forms[line.kind] = form
                continue
            if len(self._formless) >= MAX_FORMS:
                self._formless.clear()
            self._formless.add(line.kind)
        return self._fill()

    def _fill(self) -> bool:
        for line in self.alike:
            line.form = self.forms.get(line.kind)
        return all(line.form is not None for line in self.alike)
