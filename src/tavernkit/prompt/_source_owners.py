"""Which source the characters of a prompt count for: the answer to "what does this entry cost?"."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

from tavernkit.prompt._source_spans import Span, TextSource

Owned: TypeAlias = tuple[int, int, TextSource | None]
"""Start and end of characters, and the source that they count for; None for text of the builder itself."""

_PLACING_KINDS = frozenset(
    {"context template", "instruct template", "preset", "settings", "system prompt", "template"},
)
"""Sources that say where other texts go: ``{{description}}`` in a prompt of a preset places the card's description."""

_PASSING_KINDS = frozenset({"chat", "message", "user"})
_NAMES = ("/name", "/nickname", "/username")
"""Pointers of names."""


def owned_parts(spans: Iterable[Span]) -> Iterator[Owned]:
    """Yield all characters of spans with the source that they count for.

    Text of a macro counts for the text that the macro is written in: it is in the prompt because of that text. So does
    what a script wrote for the text it replaced. Prompts of presets and templates are different, because they place
    other texts: what ``{{description}}``, ``{{wiBefore}}``, ``{{getvar}}`` or a ``{0}`` brings from a field, lore or
    another prompt counts for that. Names, lines of the chat and all else that their macros give is their own. The same
    is true of ``{{original}}`` in a card's prompt.

    Args:
        spans: The spans.
    """
    for span in spans:
        yield from _owned(span)


def _owned(span: Span) -> list[Owned]:
    if span.kind in ("verbatim", "added"):
        return [(span.start, span.end, span.source)]
    writers = {owner: None for _, _, owner in owned_parts(span.written) if owner is not None}
    writer = next(iter(writers), None)
    if not span.inner or (writer is not None and not _leads_on(span, writer, len(writers))):
        return [(span.start, span.end, writer)]
    parts = list(owned_parts(span.inner))
    # Nothing that has a source nearby counts for the builder: its separators in the result of a macro, for example.
    nearest = writer or next((owner for _, _, owner in parts if owner is not None), None)
    if span.kind != "expanded":
        return [(start, end, owner or nearest) for start, end, owner in parts]
    return [(start, end, nearest if owner is None or _passes(owner) else owner) for start, end, owner in parts]


def _leads_on(span: Span, writer: TextSource, writers: int) -> bool:
    """Return True if the text of a span counts for the sources inside it."""
    if span.kind == "expanded":
        return writer.kind in _PLACING_KINDS or span.name.lower() == "original"
    return writers > 1  # a script that changed a text of several sources


def _passes(source: TextSource) -> bool:
    """Return True for names and lines of the chat, which have places of their own in a prompt."""
    return source.kind in _PASSING_KINDS or source.pointer.endswith(_NAMES)


def merged(parts: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Join ranges of characters that touch or overlap.

    Args:
        parts: Starts and ends.
    """
    last: tuple[int, int] | None = None
    for start, end in sorted(parts):
        if last is not None and start <= last[1]:
            last = last[0], max(last[1], end)
            continue
        if last is not None:
            yield last
        last = start, end
    if last is not None:
        yield last
