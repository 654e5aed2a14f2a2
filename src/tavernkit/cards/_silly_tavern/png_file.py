"""PNG as SillyTavern reads and writes it: every checksum must be right, only plain text chunks count."""

from __future__ import annotations

import base64
import re
import struct
import zlib

from tavernkit._dataclass import dataclass
from tavernkit._text.js_values import join_surrogates, json_parse, json_stringify
from tavernkit._values import is_object
from tavernkit.cards._json_text import check_depth
from tavernkit.cards._limits import Limits
from tavernkit.cards._payload import decode_base64
from tavernkit.cards._png import SIGNATURE, encode_chunk
from tavernkit.cards.errors import PngError
from tavernkit.errors import LimitExceededError, TavernKitError

CARD_KEYWORDS = ("ccv3", "chara")
_SHOWN = (b"IHDR", b"PLTE", b"tRNS", b"IDAT", b"IEND")
_BITS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
MAX_PIXEL_BYTES = 256 * 1024 * 1024
"""Pictures that are larger when decompressed are kept as they are."""


@dataclass(frozen=True, slots=True)
class PngChunk:
    """A chunk with its data."""

    kind: bytes
    data: bytes

    @property
    def keyword(self) -> str:
        """The keyword of a text chunk."""
        return self.data.partition(b"\0")[0].decode("latin-1")

    @property
    def text(self) -> str:
        """The text of a ``tEXt`` chunk: a card's JSON, which is base64 of UTF-8, or Latin-1 in any other chunk."""
        text = self.data.partition(b"\0")[2]
        if self.keyword.lower() in CARD_KEYWORDS:
            return decode_base64(text).decode("utf-8", errors="replace")
        return text.decode("latin-1")


def read_chunks(data: bytes, limits: Limits) -> list[PngChunk]:
    """Read all chunks up to IEND; raises ``PngError`` at the first fault."""
    if not data.startswith(SIGNATURE):
        raise PngError("the file does not start like a PNG")
    chunks: list[PngChunk] = []
    offset = len(SIGNATURE)
    while not chunks or chunks[-1].kind != b"IEND":
        if len(chunks) >= limits.max_chunks:
            raise LimitExceededError(f"PNG: more than {limits.max_chunks} chunks", limit="max_chunks")
        if offset + 12 > len(data):
            raise PngError("the PNG ends without an IEND chunk")
        length, kind = struct.unpack_from(">I4s", data, offset)
        end = offset + 8 + length
        if end + 4 > len(data):
            raise PngError("a chunk is longer than the file")
        if not chunks and kind != b"IHDR":
            raise PngError("the first chunk is not IHDR")
        body = data[offset + 8 : end]
        if struct.unpack_from(">I", data, end)[0] != zlib.crc32(body, zlib.crc32(kind)):
            raise PngError(f"the checksum of the {kind.decode('latin-1')} chunk is wrong")
        chunks.append(PngChunk(kind, body))
        offset = end + 4
    return chunks


def read_card_text(chunks: list[PngChunk]) -> str:
    """Return the JSON text of the first ``ccv3`` chunk, else of the first ``chara`` chunk."""
    texts = [chunk for chunk in chunks if chunk.kind == b"tEXt"]
    if any(chunk.data.count(b"\0") > 1 for chunk in texts):
        raise PngError("a text chunk has a zero byte in its text")
    for keyword in CARD_KEYWORDS:
        for chunk in texts:
            if chunk.keyword.lower() == keyword:
                return chunk.text
    raise PngError("the PNG has no character card")


def write_card_text(chunks: list[PngChunk], text: str, limits: Limits) -> bytes:
    """Write a PNG with a card: ``chara`` as given and ``ccv3`` with V3's spec, before IEND."""
    kept = [chunk for chunk in chunks if chunk.kind != b"tEXt" or chunk.keyword.lower() not in CARD_KEYWORDS]
    cards = [_text_chunk("chara", text)]
    try:
        check_depth(text, limits.max_json_depth, what="card")
        card = json_parse(text)
    except TavernKitError:
        card = None
    if is_object(card):
        cards.append(_text_chunk("ccv3", json_stringify({**card, "spec": "chara_card_v3", "spec_version": "3.0"})))
    elif isinstance(card, list):
        cards.append(_text_chunk("ccv3", json_stringify(card)))
    kept[-1:-1] = cards
    return encode_png(kept)


def encode_png(chunks: list[PngChunk]) -> bytes:
    """Return the bytes of a PNG."""
    return SIGNATURE + b"".join(encode_chunk(chunk.kind, chunk.data) for chunk in chunks)


def _text_chunk(keyword: str, text: str) -> PngChunk:
    whole = _LONE_SURROGATE.sub("\ufffd", join_surrogates(text))
    return PngChunk(b"tEXt", keyword.encode() + b"\0" + base64.b64encode(whole.encode()))


def stored_picture(chunks: list[PngChunk]) -> list[PngChunk]:
    """Return a picture as SillyTavern stores it.

    SillyTavern decodes and rewrites pictures, which removes other data; animations and pictures that cannot be decoded
    stay as they are. We keep the compressed pixels unchanged.
    """
    if any(chunk.kind == b"acTL" for chunk in chunks) or not _decodable(chunks):
        return chunks
    return [chunk for chunk in chunks if chunk.kind in _SHOWN]


def _decodable(chunks: list[PngChunk]) -> bool:
    if len(chunks[0].data) != 13:
        return False
    width, height, depth, colour = struct.unpack_from(">IIBB", chunks[0].data)
    needed = height * (1 + (width * depth * _BITS.get(colour, 4) + 7) // 8)
    if not 0 < needed <= MAX_PIXEL_BYTES:
        return False
    packed = b"".join(chunk.data for chunk in chunks if chunk.kind == b"IDAT")
    try:
        return len(zlib.decompressobj().decompress(packed, needed)) == needed or chunks[0].data[12] == 1
    except zlib.error:
        return False
