"""Readable descriptions of where words come from."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from tavernkit._dataclass import dataclass
from tavernkit.lore import LoreRow
from tavernkit.prompt._source_map import SourceMap
from tavernkit.prompt._source_spans import Span, TextSource

_BUILDER = "the builder itself"
_SENTENCE_END = re.compile(r"""[.!?…。！？]{1,3}["'”’»)\]*_]{0,3}\s{1,9}|[。！？]|\n{1,9}""")
"""Bounded, so that a text of only dots takes no longer than others."""


@dataclass(frozen=True, slots=True)
class Words:
    """Words of a prompt that have one origin: the text of ``source`` from ``start`` to ``end``, and what changed them.

    ``how`` lists the macros and scripts that produced them, outermost first. Words that a macro generated have the
    place of the macro.
    """

    text: str
    """The words."""
    kind: str
    """The kind of span: ``verbatim``, ``expanded``, ``replaced``, ``added`` or ``aligned``."""
    how: str
    source: TextSource | None = None
    start: int = 0
    end: int = 0


def words_of(text: str, spans: Sequence[Span], start: int = 0, end: int | None = None) -> list[Words]:
    """Cut a text, or a part of it, where the origin of its words changes.

    Args:
        text: The text.
        spans: Its spans.
        start: Where the part begins.
        end: Where it ends; by default with the text.
    """
    part = (start, len(text) if end is None else end)
    return [words for span in spans for words in _words(text, span, (), part)]


def sentences_of(words: Iterable[Words]) -> Iterator[Words]:
    """Split words copied from a source into sentences, each with its own place there."""
    for each in words:
        if each.source is None or each.end - each.start != len(each.text):
            yield each
            continue
        ends = [found.end() for found in _SENTENCE_END.finditer(each.text)]
        for start, end in pairwise(dict.fromkeys((0, *ends, len(each.text)))):
            yield replace(each, text=each.text[start:end], start=each.start + start, end=each.start + end)


def tokens_of_lore(source_map: SourceMap, rows: Sequence[LoreRow]) -> Mapping[str, int]:
    """Return the tokens of each lore entry in the prompt, by the id of its row."""
    counts = {source: tokens for source, tokens in source_map.tokens_by_source().items() if source.kind == "lore"}
    found = {row.id: 0 for row in rows if row.active}
    left = [row for row in rows if row.active]
    for by_content in (True, False):  # titles may repeat; contents may have been changed
        for row in tuple(left):
            source = next((each for each in counts if _is_of(row, each, by_content=by_content)), None)
            if source is not None:
                found[row.id] = counts.pop(source)
                left.remove(row)
    return found


def _is_of(row: LoreRow, source: TextSource, *, by_content: bool) -> bool:
    same = source.title == row.title and source.name in row.book
    return same and (not by_content or source.text.endswith(row.content))


def source_label(source: TextSource | None) -> str:
    """Name a source, or the builder."""
    return _BUILDER if source is None else source.label


def _words(text: str, span: Span, outer: tuple[str, ...], part: tuple[int, int]) -> Iterator[Words]:
    low, high = max(span.start, part[0]), min(span.end, part[1])
    if low >= high:
        return
    steps = (*outer, *_step(span))
    if span.inner:
        for inner in span.inner:
            yield from _words(text, inner, steps, part)
        return
    shown, how = text[low:high], ", ".join(steps)
    if span.source is not None:
        start = span.offset + low - span.start
        yield Words(shown, span.kind, how, span.source, start, start + high - low)
        return
    written = next((leaf for each in span.written for leaf in each.leaves() if leaf.source is not None), None)
    if written is None:
        yield Words(shown, span.kind, how)
    else:
        yield Words(shown, span.kind, how, written.source, written.offset, written.offset + len(written))


def _step(span: Span) -> Iterator[str]:
    if span.kind == "expanded":
        written = (source for each in span.written for source in each.sources)
        source = next(written, None) if span.inner else None  # otherwise, it is the source of the words
        where = f" in {source.label}" if source is not None else ""
        yield f"through {{{{{span.name}}}}}{where}" if span.name else f"through a macro{where}"
    elif span.kind == "replaced":
        yield f"by the regex script {span.name}" if span.name else "changed on the way"
    elif span.kind == "aligned":
        yield "found by comparing"
    elif span.kind == "added":
        yield f"added because of {span.name}" if span.name else "added by the builder"
