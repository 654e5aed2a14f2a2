"""JPEG: a card in the EXIF comment or a comment segment, or a CHARX archive after the picture."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator
from typing import BinaryIO

from tavernkit._dataclass import dataclass
from tavernkit._values import Json
from tavernkit.cards._exif import exif_texts
from tavernkit.cards._fields import ignore
from tavernkit.cards._limits import Limits
from tavernkit.cards._payload import decode_payload
from tavernkit.cards._source import Source
from tavernkit.cards.errors import EncryptedCardError, ImageError, JsonError
from tavernkit.errors import LimitExceededError, Warn

SIGNATURE = b"\xff\xd8\xff"
_START_OF_SCAN = 0xDA
_END_OF_IMAGE = 0xD9
_COMMENT = 0xFE
_APP1 = 0xE1
_EXIF = b"Exif\0\0"
_ALONE = (0x01, *range(0xD0, 0xD9))

PLACEHOLDER = (
    b"\xff\xd8\xff\xdb\x00\x43\x00" + b"\x01" * 64 + b"\xff\xc0\x00\x0b\x08\x00\x01\x00\x01\x01\x01\x11\x00"
    b"\xff\xc4\x00\x14\x00\x01" + b"\x00" * 16 + b"\xff\xc4\x00\x14\x10\x01" + b"\x00" * 16 +
    b"\xff\xda\x00\x08\x01\x01\x00\x00\x3f\x00\x3f\xff\xd9"
)  # fmt: skip
"""A grey pixel, for archives that should look like a picture but have none."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A marker segment; ``data`` starts at ``offset + 4``."""

    marker: int
    offset: int
    data: bytes


def segments(stream: BinaryIO, limits: Limits) -> Iterator[Segment]:
    """Yield the segments before the picture's own data."""
    stream.seek(0)
    if stream.read(2) != SIGNATURE[:2]:
        raise ImageError("the file does not start like a JPEG")
    offset = 2
    for _ in range(limits.max_chunks):
        stream.seek(offset)
        head = stream.read(4)
        if len(head) < 2 or head[0] != 0xFF or head[1] in (_START_OF_SCAN, _END_OF_IMAGE):
            return
        if head[1] == 0xFF:
            offset += 1
        elif head[1] in _ALONE:
            offset += 2
        elif len(head) < 4:
            return
        else:
            length: int = struct.unpack_from(">H", head, 2)[0]
            yield Segment(head[1], offset, stream.read(max(length - 2, 0)))
            offset += 2 + max(length, 2)
    raise LimitExceededError(f"JPEG: more than {limits.max_chunks} segments", limit="max_chunks")


def read_jpeg(source: Source, limits: Limits, warn: Warn) -> Json:
    """Return the card in a JPEG's own segments; raises ``ImageError`` if there is none."""
    with source.open() as stream:
        for segment in segments(stream, limits):
            for _, _, text in _texts(segment):
                card = try_payload(text, what="JPEG comment", limits=limits, warn=warn)
                if card is not None:
                    return card
    raise ImageError("the JPEG has no character card (neither in a comment nor in an archive after the picture)")


def _texts(segment: Segment) -> Iterator[tuple[int, bytes, bytes]]:
    if segment.marker == _COMMENT:
        yield 0, segment.data, segment.data
    elif segment.marker == _APP1 and segment.data.startswith(_EXIF):
        for text in exif_texts(segment.data[len(_EXIF) :]):
            yield len(_EXIF) + text.offset, text.stored, text.data


def try_payload(data: bytes, *, what: str, limits: Limits, warn: Warn) -> Json:
    """Read a card from any text; None if it is not a JSON object."""
    held: list[str] = []
    try:
        card = decode_payload(data, what=what, limits=limits, warn=held.append)
    except EncryptedCardError:
        raise
    except JsonError:
        return None
    if not isinstance(card, dict):
        return None
    for message in held:
        warn(message)
    return card


def without_card(image: bytes, limits: Limits) -> bytes:
    """Blank out a card in a JPEG's own segments, so that it cannot contradict the archive after the picture."""
    for segment in list(segments(io.BytesIO(image), limits)):
        for start, stored, text in _texts(segment):
            if try_payload(text, what="", limits=limits, warn=ignore) is not None:
                at = segment.offset + 4 + start
                image = image[:at] + b" " * len(stored) + image[at + len(stored) :]
    return image
