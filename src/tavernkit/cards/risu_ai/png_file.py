"""PNG as RisuAI reads it: plain text chunks, whatever their checksums."""

from __future__ import annotations

import io
from collections.abc import Iterator

from tavernkit.cards.fields import ignore
from tavernkit.cards.limits import Limits
from tavernkit.cards.png import SIGNATURE, walk
from tavernkit.cards.risu_ai.errors import ImportRefusedError

MAX_KEYWORD_BYTES = 70


def read_texts(data: bytes, limits: Limits) -> Iterator[tuple[str, bytes]]:
    """Give keyword and text of each plain text chunk."""
    if not data.startswith(SIGNATURE):
        raise ImportRefusedError("the file is no PNG")
    for chunk in walk(io.BytesIO(data), limits, ignore):
        if chunk.kind == b"tEXt":
            keyword, _, text = data[chunk.offset + 8 : chunk.end - 4].partition(b"\0")
            if len(keyword) <= MAX_KEYWORD_BYTES:
                yield keyword.decode("latin-1"), text


def without_texts(data: bytes, limits: Limits) -> bytes:
    """The picture without its plain text chunks."""
    kept = (chunk for chunk in walk(io.BytesIO(data), limits, ignore) if chunk.kind != b"tEXt")
    return SIGNATURE + b"".join(data[chunk.offset : chunk.end] for chunk in kept)
