"""How lines of a chat are written: one line that is built with traced texts shows the sources of all lines like it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, TypeAlias

from tavernkit._text.regex_scripts import Stretch
from tavernkit._text.traced import Origin, Piece, pieces_of, with_pieces
from tavernkit.prompt._block import Block
from tavernkit.prompt._source_spans import MappedText, Span, TextSource
from tavernkit.prompt._steady_texts import is_steady
from tavernkit.prompt._traced_spans import (
    OpenSpan,
    finished_spans,
    moved_spans,
    open_span,
    set_source,
    source_of,
    spans_of,
    spans_of_pieces,
)

FEW_LINES = 6
"""Fewer lines of a kind are built one by one: it is not certain that they have a form."""

MAX_FORMS = 256
"""How many forms are kept from map to map."""


class LineForm:
    """What is written before and after the words of a line.

    Args:
        before: The pieces before the words.
        after: Those after them, with offsets from the end of the words.
        name: The name in the line that this was found in; each line has its own.
    """

    __slots__ = ("_spans", "after", "before", "first", "last", "name")

    def __init__(self, before: Sequence[Piece], after: Sequence[Piece], name: Origin | None) -> None:
        self.before = before
        self.after = after
        self.name = name
        self.first = before[0] if before else None
        self.last = after[-1] if after else None
        """The pieces that may belong to the text around the line; its words do not."""
        self._spans: tuple[Sequence[Span], Sequence[Span], TextSource | None] | None = None

    def write(self, content: str, words: str, name: Origin) -> str:
        """Trace a line.

        Args:
            content: The line as it is sent.
            words: Its words, traced.
            name: The place of its name.
        """
        start = self.before[-1][1] if self.before else 0
        end = start + len(words)
        pieces: list[Piece] = [*self.before]
        for low, high, origin, offset, via in pieces_of(words):
            pieces.append((start + low, start + high, origin, offset, via))
        for low, high, origin, offset, via in self.after:
            pieces.append((end + low, end + high, origin, offset, via))
        if self.name is not None:
            for index, (low, high, origin, offset, via) in enumerate(pieces):
                if origin is self.name:
                    pieces[index] = low, high, name, offset, via
        return with_pieces(content, tuple(pieces))

    def spans(self, at: int, words: TextSource, name: TextSource | None, said: str = "") -> list[OpenSpan]:
        """Return the spans of a line: those that ``write`` gives, without its traced text.

        Args:
            at: Where the line begins in the whole text.
            words: The source of its words.
            name: The source of its name, if the form has it.
            said: The words as scripts wrote them, if they did.
        """
        if self._spans is None:
            before = spans_of_pieces(self.before)
            start = before[-1].end if before else 0
            own = source_of(self.name) if self.name is not None else None
            self._spans = (*before, Span(start, start, "verbatim")), spans_of_pieces(self.after), own
        before, after, own = self._spans
        found = moved_spans(before, at)
        spoken = found[-1]
        if said:
            found[-1:] = moved_spans(spans_of(said), spoken.start)
        else:
            spoken.source = words
            spoken.end += len(words.text)
        if after:
            found += moved_spans(after, found[-1].end)
        if own is not None and name is not None:
            set_source(found, own, name)
        return found


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

    __slots__ = (
        "_at",
        "_placed",
        "block",
        "chat",
        "edited",
        "edits",
        "form",
        "kind",
        "line",
        "mapped",
        "place",
        "text",
        "whole",
    )

    def __init__(
        self,
        block: Block,
        place: int,
        line: object,
        chat: str,
        *,
        whole: bool,
        kind: object = None,
        edits: Stretch | None = None,
    ) -> None:
        self.block = block
        self.place = place
        self.line = line
        self.chat = chat
        self.whole = whole
        """True if the block is the line, as it is stored or as regex scripts changed it."""
        self.edits = edits
        """What regex scripts changed, if they did."""
        self.edited = ""
        """The traced words that they made."""
        self.kind = kind
        """What decides how it is written, if that may be as other lines are."""
        self.form: LineForm | None = None
        """How it is written, if it is not whole; it never changes once it is found."""
        self.text = ""
        """The traced line; empty until it is asked for."""
        self.mapped: MappedText | None = None
        """The line as a message of the last map that it was asked for in."""
        self._placed: list[OpenSpan] | None = None
        """Its spans in the last text that it was a part of, and where it began there."""
        self._at = 0

    def message(self, place: str, role: str, sources_of: SourcesOf) -> MappedText:
        """Return the line as a message of its own.

        Args:
            place: The id of the message.
            role: Its role.
            sources_of: Returns the sources of its parts.
        """
        known = self.mapped
        if known is None or known.id != place or known.role != role:
            spans = known.spans if known is not None else finished_spans(self._made_spans(0, sources_of))
            self.mapped = known = MappedText(self.block.content, spans, role, place)
        return known

    def add_spans(self, found: list[OpenSpan], at: int, sources_of: SourcesOf) -> None:
        """Add the spans of the line to those of a longer text; they may be those of another text.

        Args:
            found: The spans of that text so far.
            at: Where the line begins there.
            sources_of: Returns the sources of its parts.
        """
        if self._placed is None:
            self._placed, self._at = self._made_spans(at, sources_of), at
        if at == self._at:
            found += self._placed
        else:
            moved_spans(self._placed, at - self._at, found)

    def _made_spans(self, at: int, sources_of: SourcesOf) -> list[OpenSpan]:
        if self.form is not None:
            name = sources_of(self, "name") if self.form.name is not None else None
            return self.form.spans(at, sources_of(self, "words"), name, self.edited)
        if self.edited:
            return moved_spans(spans_of(self.edited), at)
        words = sources_of(self, "words")
        return [open_span(at, at + len(words.text), "verbatim", words)] if words.text else []


LinePart: TypeAlias = Literal["words", "name"]
"""A part of a line that has a place in the chat."""

SourcesOf: TypeAlias = Callable[[KnownLine, LinePart], TextSource]
"""Returns the source of a part of a line."""


def no_sources(line: KnownLine, _part: LinePart) -> TextSource:
    """Raise an error: the build said that it has no such lines."""
    raise LookupError(f"line {line.place} has no sources")


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
            shown = next((each for each in reversed(members) if each[1].edits is None), None)
            if kind in self.forms:
                self.alike += [line for _, line in members]
            elif shown is None or kind in formless or 1 < len(members) < FEW_LINES:
                self.single += members
            else:
                self.examples.append(shown)
                self.alike += [line for _, line in members if line is not shown[1]]
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
