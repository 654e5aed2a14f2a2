"""The spans of traced texts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tavernkit._text.traced import Change, Origin, Piece, Traced, plain
from tavernkit.prompt._source_spans import Span, SpanKind, TextSource


class OpenSpan:
    """A span that is not frozen yet.

    To fill the fields of a frozen object takes three times as long, and a text prompt has more than a thousand spans.
    """

    __slots__ = Span.__slots__

    start: int
    end: int
    kind: SpanKind
    source: object
    offset: int
    name: str
    inner: tuple[Span, ...]
    written: tuple[Span, ...]


def open_span(start: int, end: int, kind: SpanKind, source: object = None, offset: int = 0, name: str = "") -> OpenSpan:
    """Return a span with these fields.

    Args:
        start: Its first character.
        end: Its end.
        kind: What it is.
        source: Where it came from.
        offset: Where in the source it begins.
        name: The macro, script or setting.
    """
    made = OpenSpan()
    made.start = start
    made.end = end
    made.kind = kind
    made.source = source
    made.offset = offset
    made.name = name
    made.inner = made.written = ()
    return made


def finished_spans(spans: Sequence[OpenSpan]) -> tuple[Span, ...]:
    """Freeze spans that are still open; the objects stay the same."""
    for each in spans:
        if type(each) is OpenSpan:
            each.__class__ = Span  # pyright: ignore[reportAttributeAccessIssue]  # it has the same fields
    return tuple(spans)  # pyright: ignore[reportReturnType]  # see above


def moved_spans(spans: Iterable[Span | OpenSpan], shift: int, found: list[OpenSpan] | None = None) -> list[OpenSpan]:
    """Return copies of spans for a longer text.

    Args:
        spans: The spans of a text.
        shift: Where that text begins in the longer one.
        found: The spans before them in that text, to which they are added.
    """
    found = [] if found is None else found
    for span in spans:
        made = OpenSpan()
        made.start = span.start + shift
        made.end = span.end + shift
        made.kind = span.kind
        made.source = span.source
        made.offset = span.offset
        made.name = span.name
        inner = span.inner
        made.inner = finished_spans(moved_spans(inner, shift)) if inner else inner
        made.written = span.written
        found.append(made)
    return found


def set_source(spans: Iterable[OpenSpan | Span], old: TextSource, new: TextSource) -> None:
    """Replace a source of new spans.

    Args:
        spans: The spans.
        old: The source.
        new: The other source.
    """
    for span in spans:
        if span.source is old:
            object.__setattr__(span, "source", new)
        if span.inner:
            set_source(span.inner, old, new)


def spans_of(text: str) -> tuple[Span, ...]:
    """Return the spans of a text, cached: many texts are in every prompt of a chat."""
    if not isinstance(text, Traced):
        return (Span(0, len(text), "added"),) if text else ()
    if text.spans is None:
        text.spans = spans_of_pieces(text.pieces)
    return text.spans  # pyright: ignore[reportReturnType]  # set here only; that module knows no spans


def spans_of_pieces(pieces: Sequence[Piece]) -> tuple[Span, ...]:
    """Return the spans of pieces of a text."""
    found = [OpenSpan() for _ in pieces]
    changed = False
    for made, (start, end, origin, offset, via) in zip(found, pieces, strict=True):
        made.start = start
        made.end = end
        if origin is None or origin.kind == "added":
            made.kind = "added"
            made.source = None
            made.offset = 0
            made.name = "" if origin is None else origin.name
        else:
            made.kind = "verbatim"
            made.source = origin.source or source_of(origin)
            made.offset = offset
            made.name = ""
        made.inner = made.written = ()
        changed = changed or via is not None
    if changed:
        _join_changed(found, pieces)
    return finished_spans(found)


def _join_changed(found: list[OpenSpan], pieces: Sequence[Piece]) -> None:
    """Make one span of the pieces that went through the same change."""
    end = len(pieces)
    for first in range(end - 1, -1, -1):
        via = pieces[first][4]
        if via is None:
            end = first
            continue
        before = pieces[first - 1][4] if first else None
        if before is None or before.change is not via.change:
            found[first:end] = [_changed_span(via.change, pieces[first:end])]
            end = first


def _changed_span(change: Change, pieces: Sequence[Piece]) -> OpenSpan:
    inner = spans_of_pieces(
        [
            (start, end, origin, offset, via.before if via is not None else None)
            for start, end, origin, offset, via in pieces
        ]
    )
    if not [span for span in inner if span.kind != "added" or span.name]:
        inner = ()
    name = change.name if type(change.name) is str else plain(change.name)
    made = open_span(pieces[0][0], pieces[-1][1], change.kind, None, 0, name)
    made.inner, made.written = inner, spans_of(change.text)
    return made


def source_of(origin: Origin) -> TextSource:
    """Return the source of an origin: one for all its pieces."""
    made = origin.source
    if not isinstance(made, TextSource):
        made = origin.source = TextSource(
            origin.kind, plain(origin.name), origin.pointer, plain(origin.text), plain(origin.title)
        )
    return made


def origin_of(source: TextSource) -> Origin:
    """Return an origin whose source this is."""
    return Origin(source.kind, source.name, source.pointer, source.text, source.title, source)
