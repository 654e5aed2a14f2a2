"""NovelAI's lorebooks inside pictures."""

from __future__ import annotations

import io

from tavernkit.cards.limits import Limits
from tavernkit.cards.payload import decode_payload
from tavernkit.cards.png import SIGNATURE, walk
from tavernkit.errors import FileFormatError, Warn
from tavernkit.silly_tavern.errors import LoreParseError
from tavernkit.values import Json

KEYWORD = b"naidata"


def is_png(content: bytes) -> bool:
    """Tell whether a file is a picture of the kind that can hold a lorebook."""
    return content.startswith(SIGNATURE)


def read_lore_png(content: bytes, warn: Warn) -> Json:
    """Read the lorebook of a picture; raises :class:`LoreParseError` if there is none."""
    limits = Limits()
    try:
        for chunk in walk(io.BytesIO(content), limits, warn):
            start = chunk.offset + 8
            keyword, _, text = content[start : start + chunk.length].partition(b"\0")
            if chunk.kind == b"tEXt" and keyword.lower() == KEYWORD:
                return decode_payload(text, what="the picture's lorebook", limits=limits, warn=warn)
    except FileFormatError as error:
        raise LoreParseError(str(error)) from error
    raise LoreParseError("the picture holds no lorebook")
