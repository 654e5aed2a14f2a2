"""The values of a source map: spans of a prompt's texts, and their sources."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import Literal, TypeAlias

from tavernkit._dataclass import dataclass
from tavernkit._values import JsonObject

SpanKind: TypeAlias = Literal["verbatim", "expanded", "replaced", "added", "aligned"]
"""What a span of a prompt is: see ``Span``."""

KINDS: Sequence[SpanKind] = ("verbatim", "expanded", "replaced", "aligned", "added")


@dataclass(frozen=True, slots=True)
class TextSource:
    """A text in a file or another input: its ``kind``, its ``name``, and where in it (``pointer``).

    ``text`` is the whole text as it is there; ``pointer`` is a JSON pointer (empty for an input that is a text).
    """

    kind: str
    name: str
    pointer: str
    text: str = field(repr=False, compare=False)
    title: str = field(default="", compare=False)
    """What people call it, for reports."""

    @property
    def id(self) -> str:
        """A short id: ``card:Alice/data/description``."""
        return f"{self.kind}:{self.name}{self.pointer}"

    @property
    def label(self) -> str:
        """A readable label: what it is, its title or name (for lore, also the book's), and where it is."""
        name = f"{self.title} ({self.name})" if self.kind == "lore" and self.title and self.name else self.title
        return " ".join(part for part in (self.kind, name or self.name, self.pointer) if part)

    def to_dict(self) -> JsonObject:
        """All fields, ready for ``json``."""
        return {
            "kind": self.kind,
            "name": self.name,
            "pointer": self.pointer,
            "title": self.title,
            "text": self.text,
        }


@dataclass(frozen=True, slots=True)
class Span:
    """Characters ``start`` to ``end`` of a text, and where they came from.

    - ``verbatim``: copied from ``source`` at ``offset``.
    - ``expanded``: the result of the macro ``name``; ``written`` has the spans of the macro itself, ``inner`` those of
      its result (for ``{{description}}``, the card).
    - ``replaced``: the script ``name`` wrote them; ``written`` has the spans of what they replaced, ``inner`` those of
      what it kept.
    - ``added``: text of the builder itself; ``name`` is the setting that causes it, if any.
    - ``aligned``: found by comparing a text with what it was made of; ``inner`` says where they seem to come from.

    Offsets of ``inner`` are those of the same text; offsets of ``written`` are those of the text that was written.
    """

    start: int
    end: int
    kind: SpanKind
    """``verbatim``, ``expanded``, ``replaced``, ``added`` or ``aligned``; see above."""
    source: TextSource | None = None
    offset: int = 0
    name: str = ""
    inner: tuple[Span, ...] = ()
    written: tuple[Span, ...] = ()

    def __len__(self) -> int:
        return self.end - self.start

    def leaves(self) -> Iterator[Span]:
        """The innermost spans: for the result of a macro, those that lead to its sources."""
        if not self.inner:
            yield self
        for span in self.inner:
            yield from span.leaves()

    @property
    def sources(self) -> tuple[TextSource, ...]:
        """Every source of characters in this span; for text that a macro generated, the source of the macro."""
        found: dict[TextSource, None] = {}
        for leaf in self.leaves():
            if leaf.source is not None:
                found[leaf.source] = None
            else:
                found.update(dict.fromkeys(source for span in leaf.written for source in span.sources))
        return tuple(found)

    def to_dict(self) -> JsonObject:
        """Everything that is set, ready for ``json``; the source by its id."""
        plain_form: JsonObject = {"start": self.start, "end": self.end, "kind": self.kind}
        if self.source is not None:
            plain_form |= {"source": self.source.id, "offset": self.offset}
        if self.name:
            plain_form["name"] = self.name
        for key, spans in (("inner", self.inner), ("written", self.written)):
            if spans:
                plain_form[key] = [span.to_dict() for span in spans]
        return plain_form


@dataclass(frozen=True, slots=True)
class MappedText:
    """A text of a prompt with its spans, which cover it without gap or overlap."""

    text: str
    """The whole text of the message or prompt."""
    spans: tuple[Span, ...]
    """Where its characters came from, in order."""
    role: str = ""
    """The role of the message; empty for a text prompt."""
    id: str = ""
    """The id of the block."""
    tokens: int = 0
    """Tokens of the text."""

    def to_dict(self) -> JsonObject:
        """All fields, ready for ``json``."""
        return {
            "id": self.id,
            "role": self.role,
            "text": self.text,
            "tokens": self.tokens,
            "spans": [span.to_dict() for span in self.spans],
        }


@dataclass(frozen=True, slots=True)
class Place:
    """Words in a prompt: the message (0 for a text prompt), the offsets in it, and the spans they belong to."""

    message: int
    """The number of the message, from 0."""
    start: int
    """Offset of the first character in the message."""
    end: int
    """Offset after the last character."""
    text: str
    """The characters themselves."""
    spans: tuple[Span, ...]
    """Where the characters came from."""

    def to_dict(self) -> JsonObject:
        """All fields, ready for ``json``."""
        return {
            "message": self.message,
            "start": self.start,
            "end": self.end,
            "text": self.text,
            "spans": [span.to_dict() for span in self.spans],
        }


@dataclass(frozen=True, slots=True)
class Use:
    """Where the characters of one source went, what they cost, and which ones are not in the prompt."""

    source: TextSource
    """The input."""
    places: tuple[Place, ...]
    """Where its characters are in the prompt, with those that its macros gave."""
    tokens: int
    """What the prompt has because of the source; its words in another text (``{{char}}`` in an entry) count there."""
    missing: tuple[tuple[int, int], ...]
    """Start and end of the parts of the source's text that did not reach the prompt, neither as they are nor, if they
    are macros, as what these gave."""
    reason: str = ""
    """Why nothing of it is in the prompt, if that is known."""

    def to_dict(self) -> JsonObject:
        """All fields, ready for ``json``."""
        return {
            "source": self.source.to_dict(),
            "tokens": self.tokens,
            "places": [place.to_dict() for place in self.places],
            "missing": [[start, end] for start, end in self.missing],
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True)
class Cost:
    """Tokens that a source, or the builder itself (no source), has in one block."""

    block: str
    """The id of the block."""
    source: TextSource | None
    """The input that the text is there for; None for text that the builder added."""
    tokens: int
    """Tokens of the block that are there because of the source, with what its macros gave."""

    def to_dict(self) -> JsonObject:
        """All fields, ready for ``json``."""
        return {"block": self.block, "source": None if self.source is None else self.source.id, "tokens": self.tokens}
