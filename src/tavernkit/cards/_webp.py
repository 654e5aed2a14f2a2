"""WebP: a card in the EXIF comment."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from tavernkit._dataclass import dataclass
from tavernkit._values import Json
from tavernkit.cards._exif import build_exif, exif_texts
from tavernkit.cards._jpeg import try_payload
from tavernkit.cards._limits import Limits
from tavernkit.cards._payload import encode_payload
from tavernkit.cards._source import Source, read_all
from tavernkit.cards.errors import ImageError
from tavernkit.errors import LimitExceededError, Warn

_EXTENDED = b"VP8X"
_EXIF = b"EXIF"
_HAS_EXIF = 0x08
_HAS_ALPHA = 0x10

PLACEHOLDER = bytes.fromhex("524946461a000000574542505650384c0d0000002f00000010071011118888fe0700")
"""A transparent pixel, for characters that have no WebP picture."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A RIFF chunk with its data."""

    kind: bytes
    data: bytes

    def encode(self) -> bytes:
        """Return the chunk's bytes, padded to an even length."""
        return self.kind + struct.pack("<I", len(self.data)) + self.data + b"\0" * (len(self.data) % 2)


def is_webp(head: bytes) -> bool:
    """Return True if a file starts like a WebP."""
    return head[:4] == b"RIFF" and head[8:12] == b"WEBP"


def chunks(data: bytes, limits: Limits, warn: Warn) -> Iterator[Chunk]:
    """Yield a WebP's chunks; a cut-off one ends the walk with a warning."""
    if not is_webp(data[:12]):
        raise ImageError("the file does not start like a WebP")
    offset = 12
    for _ in range(limits.max_chunks):
        if offset + 8 > len(data):
            return
        kind, length = struct.unpack_from("<4sI", data, offset)
        if offset + 8 + length > len(data):
            warn(f"WebP: the chunk at offset {offset} claims {length} bytes, but the file ends earlier")
            return
        yield Chunk(kind, data[offset + 8 : offset + 8 + length])
        offset += 8 + length + length % 2
    raise LimitExceededError(f"WebP: more than {limits.max_chunks} chunks", limit="max_chunks")


def read_webp(source: Source, limits: Limits, warn: Warn) -> Json:
    """Return the card in a WebP; raises ``ImageError`` if there is none."""
    data = read_all(source, limits.max_image_bytes, limit="max_image_bytes", what="the WebP")
    for chunk in chunks(data, limits, warn):
        if chunk.kind == _EXIF:
            for text in exif_texts(chunk.data.removeprefix(b"Exif\0\0")):
                card = try_payload(text.data, what="WebP EXIF comment", limits=limits, warn=warn)
                if card is not None:
                    return card
    raise ImageError("the WebP has no character card in its EXIF comment")


def write_webp(image: bytes, card: object, limits: Limits, warn: Warn) -> bytes:
    """Put a card into a WebP; all chunks but the EXIF one stay byte for byte."""
    kept = [chunk for chunk in chunks(image, limits, warn) if chunk.kind != _EXIF]
    if kept and kept[0].kind == _EXTENDED:
        header = bytes([kept[0].data[0] | _HAS_EXIF]) + kept[0].data[1:]
        kept[0] = Chunk(_EXTENDED, header)
    else:
        kept.insert(0, Chunk(_EXTENDED, _extended_header(kept)))
    body = b"".join(chunk.encode() for chunk in (*kept, Chunk(_EXIF, build_exif(encode_payload(card)))))
    return b"RIFF" + struct.pack("<I", len(body) + 4) + b"WEBP" + body


def _extended_header(kept: list[Chunk]) -> bytes:
    for chunk in kept:
        if chunk.kind == b"VP8L" and len(chunk.data) >= 5 and chunk.data[0] == 0x2F:
            bits: int = struct.unpack_from("<I", chunk.data, 1)[0]
            flags = _HAS_EXIF | (_HAS_ALPHA if bits >> 28 & 1 else 0)
            return _header(flags, bits & 0x3FFF, bits >> 14 & 0x3FFF)
        if chunk.kind == b"VP8 " and len(chunk.data) >= 10 and chunk.data[3:6] == b"\x9d\x01\x2a":
            width, height = struct.unpack_from("<HH", chunk.data, 6)
            return _header(_HAS_EXIF, (width & 0x3FFF) - 1, (height & 0x3FFF) - 1)
    raise ImageError("the WebP has no picture that could contain a card")


def _header(flags: int, width_minus_one: int, height_minus_one: int) -> bytes:
    sizes = (max(width_minus_one, 0).to_bytes(3, "little"), max(height_minus_one, 0).to_bytes(3, "little"))
    return bytes([flags, 0, 0, 0]) + sizes[0] + sizes[1]
