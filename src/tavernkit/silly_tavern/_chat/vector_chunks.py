"""Splits texts into chunks for Vector Storage, as SillyTavern does: sizes are those of JavaScript's strings."""

from __future__ import annotations

from collections.abc import Sequence

from tavernkit._dataclass import dataclass
from tavernkit._text.js_values import js_round, python_index, utf16_length
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
        parts += [part] if utf16_length(part) < size else _cut(part, size, delimiters[1:])
    chunks: list[str] = []
    current: list[str] = []
    length = 0
    for part in parts:
        own = utf16_length(part)
        longer = length + utf16_length(delimiter) + own
        if current and longer <= size:
            current.append(part)
            length = longer
            continue
        if current:
            chunks.append(delimiter.join(current))
        current, length = [part], own
    return [*chunks, delimiter.join(current)] if current else chunks


def _shared(chunks: Sequence[str], index: int, size: int) -> str:
    """Return a chunk with whole sentences of its neighbours around it."""
    before = after = ""
    if index > 0:
        text = chunks[index - 1]
        before = _from_sentence(text[python_index(text, utf16_length(text) - size) :])
    if index + 1 < len(chunks):
        text = chunks[index + 1]
        after = trim_to_sentence(text[: python_index(text, size)])
    return " ".join(part for part in (before, chunks[index], after) if part)


def _from_sentence(text: str) -> str:
    """Return what comes after the first end of a sentence and the character after it."""
    ends = (index for index, mark in enumerate(text) if mark in SENTENCE_ENDS)
    first = next(ends, None)
    return text if first is None else text[first + 2 :]
