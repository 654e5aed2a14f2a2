"""Splits texts into chunks for Vector Storage, as SillyTavern does."""

from __future__ import annotations

from collections.abc import Sequence

from tavernkit._dataclass import dataclass
from tavernkit._text.js_values import js_round
from tavernkit.silly_tavern._chat.output_cleanup import SENTENCE_ENDS, trim_to_sentence

DELIMITERS = ("\n\n", "\n", " ", "")
"""Where texts are split: at blank lines, at line breaks, at spaces, anywhere."""


@dataclass(frozen=True, slots=True)
class Cutting:
    """How a text is split: the size of chunks, how much neighbours share, and a custom delimiter."""

    size: float
    overlap_percent: float = 0
    delimiter: str = ""
    only_delimiter: bool = False

    def chunks(self, text: str) -> list[str]:
        """Split a text."""
        if self.only_delimiter and self.delimiter:
            return text.split(self.delimiter)
        delimiters = (self.delimiter, *DELIMITERS) if self.delimiter else DELIMITERS
        overlap = js_round(self.size * self.overlap_percent / 100)
        chunks = _cut(text, self.size - overlap, delimiters)
        half = int(overlap // 2)
        return [_shared(chunks, index, half) for index in range(len(chunks))] if half > 0 else chunks


def _cut(text: str, size: float, delimiters: Sequence[str]) -> list[str]:
    """Split at the first delimiter, split longer parts at the next ones, and join neighbours while they fit."""
    if size <= 0 or not delimiters:
        return [text]
    delimiter = delimiters[0]
    parts: list[str] = []
    for part in text.split(delimiter) if delimiter else text:
        parts += [part] if len(part) < size else _cut(part, size, delimiters[1:])
    chunks: list[str] = []
    current: list[str] = []
    length = 0
    for part in parts:
        longer = length + len(delimiter) + len(part)
        if current and longer <= size:
            current.append(part)
            length = longer
            continue
        if current:
            chunks.append(delimiter.join(current))
        current, length = [part], len(part)
    return [*chunks, delimiter.join(current)] if current else chunks


def _shared(chunks: Sequence[str], index: int, size: int) -> str:
    """Return a chunk with whole sentences of its neighbours around it."""
    before = _from_sentence(chunks[index - 1][-size:]) if index > 0 else ""
    after = trim_to_sentence(chunks[index + 1][:size]) if index + 1 < len(chunks) else ""
    return " ".join(part for part in (before, chunks[index], after) if part)


def _from_sentence(text: str) -> str:
    """Return what comes after the first end of a sentence and the character after it."""
    ends = (index for index, mark in enumerate(text) if mark in SENTENCE_ENDS)
    first = next(ends, None)
    return text if first is None else text[first + 2 :]
