"""PNG and APNG: cards and assets in text chunks. Chunks that are not ours are skipped, never loaded."""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from typing import BinaryIO

from tavernkit._dataclass import dataclass
from tavernkit._values import Json
from tavernkit.cards._json_text import decode_base64, decode_payload
from tavernkit.cards._limits import Limits
from tavernkit.cards._source import Source
from tavernkit.cards.errors import JsonError, PngError
from tavernkit.errors import LimitExceededError, Warn

SIGNATURE = b"\x89PNG\r\n\x1a\n"
CARD_KEYWORDS = ("ccv3", "chara")
"""In order of preference."""
ASSET_PREFIX = "chara-ext-asset_"

_TEXT_KINDS = (b"tEXt", b"zTXt", b"iTXt")
_PEEK_BYTES = 1100
"""How much of a text chunk is read to find its keyword: PNG allows 79 bytes, and other programs write more."""
_COPY_BYTES = 1 << 18


@dataclass(frozen=True, slots=True)
class Chunk:
    """Where a chunk is; its data starts at ``offset + 8``."""

    kind: bytes
    offset: int
    length: int

    @property
    def end(self) -> int:
        """The offset after the checksum."""
        return self.offset + 12 + self.length


@dataclass(frozen=True, slots=True)
class CardText:
    """A text chunk that contains a card."""

    keyword: str
    chunk: Chunk
    data: bytes


@dataclass(slots=True)
class PngContent:
    """The cards and assets in a PNG."""

    texts: list[CardText] = field(default_factory=list[CardText])
    assets: dict[str, Chunk] = field(default_factory=dict[str, Chunk])
    animated: bool = False
    inflated: int = 0
    """How many bytes compressed text chunks have grown by."""
    end: int = 0
    """The offset after IEND, or of the damage that ended the walk."""


def walk(stream: BinaryIO, limits: Limits, warn: Warn) -> Iterator[Chunk]:
    """Yield the chunks up to IEND without reading their data; stop at damage, with a warning."""
    stream.seek(0, os.SEEK_END)
    size = stream.tell()
    stream.seek(0)
    if stream.read(8) != SIGNATURE:
        raise PngError("the file does not start like a PNG")
    offset = 8
    for _ in range(limits.max_chunks):
        stream.seek(offset)
        header = stream.read(8)
        if len(header) < 8:
            warn(f"PNG: the file ends at offset {offset} without an IEND chunk")
            return
        length, kind = struct.unpack(">I4s", header)
        chunk = Chunk(kind, offset, length)
        if not kind.isalpha() or not kind.isascii():
            warn(f"PNG: there is no chunk at offset {offset}; the rest was not read")
            return
        if chunk.end > size:
            warn(f"PNG: the {kind.decode()} chunk at offset {offset} claims {length} bytes, but the file ends earlier")
            return
        yield chunk
        if kind == b"IEND":
            return
        offset = chunk.end
    raise LimitExceededError(f"PNG: more than {limits.max_chunks} chunks", limit="max_chunks")


def read_png(source: Source, limits: Limits, warn: Warn) -> PngContent:
    """Find the cards and assets of a PNG."""
    content = PngContent(end=len(SIGNATURE))
    with source.open() as stream:
        for chunk in walk(stream, limits, warn):
            if chunk.offset == len(SIGNATURE) and chunk.kind != b"IHDR":
                warn("PNG: the first chunk is not IHDR: other programs will not recognise the file as a picture")
            content.end = chunk.end
            content.animated = content.animated or chunk.kind == b"acTL"
            if chunk.kind in _TEXT_KINDS:
                _take_text(stream, chunk, content, limits, warn)
    return content


def _take_text(stream: BinaryIO, chunk: Chunk, content: PngContent, limits: Limits, warn: Warn) -> None:
    keyword = _keyword(stream, chunk)
    if keyword.lower() in CARD_KEYWORDS:
        data = _text(stream, chunk, keyword, limits, warn)
        if data is not None:
            content.inflated += max(len(data) - chunk.length, 0)
            if content.inflated > limits.max_total_bytes:
                raise LimitExceededError(
                    f"PNG: the text chunks inflate to more than {limits.max_total_bytes} bytes", limit="max_total_bytes"
                )
            content.texts.append(CardText(keyword.lower(), chunk, data))
    elif keyword.startswith(ASSET_PREFIX) and chunk.kind == b"tEXt":
        content.assets[keyword.removeprefix(ASSET_PREFIX).removeprefix(":")] = chunk


def _keyword(stream: BinaryIO, chunk: Chunk) -> str:
    stream.seek(chunk.offset + 8)
    head, nul, _ = stream.read(min(chunk.length, _PEEK_BYTES)).partition(b"\0")
    return head.decode("latin-1") if nul else ""


def _text(stream: BinaryIO, chunk: Chunk, keyword: str, limits: Limits, warn: Warn) -> bytes | None:
    if chunk.length > limits.max_text_chunk_bytes:
        raise LimitExceededError(
            f"PNG: the {keyword} chunk has {chunk.length} bytes, more than {limits.max_text_chunk_bytes}",
            limit="max_text_chunk_bytes",
        )
    stream.seek(chunk.offset + 8)
    data = stream.read(chunk.length)
    if stream.read(4) != struct.pack(">I", zlib.crc32(data, zlib.crc32(chunk.kind))):
        warn(f"PNG: the checksum of the {keyword} chunk at offset {chunk.offset} is wrong; it was read anyway")
    rest = data.partition(b"\0")[2]
    if chunk.kind == b"zTXt":
        return _inflate(rest[:1], rest[1:], keyword, limits, warn)
    if chunk.kind == b"iTXt":
        text = rest[2:].partition(b"\0")[2].partition(b"\0")[2]
        return text if rest[:1] == b"\0" else _inflate(rest[1:2], text, keyword, limits, warn)
    return rest


def _inflate(method: bytes, data: bytes, keyword: str, limits: Limits, warn: Warn) -> bytes | None:
    if method != b"\0":
        warn(f"PNG: a {keyword} chunk uses an unknown compression; it was not read")
        return None
    inflater = zlib.decompressobj()
    try:
        text = inflater.decompress(data, limits.max_inflated_text_bytes + 1)
    except zlib.error as error:
        warn(f"PNG: a compressed {keyword} chunk is broken ({error}); it was not read")
        return None
    if len(text) > limits.max_inflated_text_bytes:
        raise LimitExceededError(
            f"PNG: the {keyword} chunk inflates to more than {limits.max_inflated_text_bytes} bytes",
            limit="max_inflated_text_bytes",
        )
    if not inflater.eof:
        warn(f"PNG: a compressed {keyword} chunk is cut off")
    return text


def choose_card(content: PngContent, limits: Limits, warn: Warn) -> tuple[str, Json]:
    """Return the keyword and JSON of the card to use.

    ``ccv3`` is preferred to ``chara``, plain text chunks to compressed and international ones (which hardly any program
    reads), and later chunks to earlier ones. A broken chunk is skipped with a warning.
    """
    if not content.texts:
        raise PngError("the PNG has no character card (no text chunk chara or ccv3)")
    ranked = sorted(
        content.texts,
        key=lambda text: (CARD_KEYWORDS.index(text.keyword), text.chunk.kind != b"tEXt", -text.chunk.offset),
    )
    first = ranked[0]
    twins = [text for text in ranked if text.keyword == first.keyword]
    if len(twins) > 1:
        warn(f"PNG: {len(twins)} chunks named {first.keyword}; the last plain one was used")
    failures: list[JsonError] = []
    for text in ranked:
        try:
            card = decode_payload(text.data, what=f"PNG {text.keyword}", limits=limits, warn=warn)
        except JsonError as error:
            failures.append(error)
            continue
        for failure in failures:
            warn(f"{failure}; another chunk was used instead")
        return text.keyword, card
    raise failures[0]


@dataclass(frozen=True, slots=True)
class ChunkAsset:
    """The bytes of an asset chunk, read and decoded on demand."""

    file: Source
    key: str
    chunk: Chunk
    limits: Limits

    @property
    def size(self) -> int:
        """About how many bytes: base64 does not say exactly."""
        return self.chunk.length * 3 // 4

    def read(self, max_bytes: int) -> bytes:
        """Decode the chunk; find it again if the file has changed."""
        chunk = self.chunk
        with self.file.open() as stream:
            if not _keyword(stream, chunk).endswith(self.key):
                chunk = read_png(self.file, self.limits, _ignore).assets.get(self.key)
            if chunk is None:
                raise PngError(f"the asset {self.key!r} is no longer in the PNG")
            if chunk.length > max_bytes * 4 // 3 + _PEEK_BYTES:
                raise LimitExceededError(
                    f"the asset {self.key!r} has more than {max_bytes} bytes", limit="max_entry_bytes"
                )
            stream.seek(chunk.offset + 8)
            return decode_base64(stream.read(chunk.length).partition(b"\0")[2])


def _ignore(message: str) -> None:
    del message


def encode_chunk(kind: bytes, data: bytes) -> bytes:
    """Return the bytes of a chunk."""
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(data, zlib.crc32(kind)))


def text_chunk(keyword: str, text: bytes) -> bytes:
    """Return the bytes of a plain text chunk."""
    return encode_chunk(b"tEXt", keyword.encode("latin-1", errors="replace") + b"\0" + text)


def write_png(
    out: BinaryIO,
    image: Source,
    cards: Sequence[tuple[str, bytes]],
    assets: Iterable[tuple[str, bytes]],
    limits: Limits,
    warn: Warn,
) -> None:
    """Copy a PNG with new cards and assets (both as base64) before IEND; all other chunks stay byte for byte."""
    with image.open() as stream:
        chunks = list(walk(stream, limits, warn))
        out.write(SIGNATURE)
        for chunk in chunks:
            if chunk.kind != b"IEND" and not _is_ours(stream, chunk):
                _copy(stream, out, chunk.offset, chunk.end)
        out.writelines(text_chunk(f"{ASSET_PREFIX}:{key}", data) for key, data in assets)
        out.writelines(text_chunk(keyword, data) for keyword, data in cards)
        out.write(encode_chunk(b"IEND", b""))
        if chunks and chunks[-1].kind == b"IEND":
            _copy(stream, out, chunks[-1].end, None)


def _is_ours(stream: BinaryIO, chunk: Chunk) -> bool:
    if chunk.kind not in _TEXT_KINDS:
        return False
    keyword = _keyword(stream, chunk)
    return keyword.lower() in CARD_KEYWORDS or keyword.startswith(ASSET_PREFIX)


def _copy(stream: BinaryIO, out: BinaryIO, start: int, end: int | None) -> None:
    stream.seek(start)
    left = end - start if end is not None else None
    while block := stream.read(_COPY_BYTES if left is None else min(left, _COPY_BYTES)):
        out.write(block)
        left = None if left is None else left - len(block)


def placeholder_png(width: int = 512, height: int = 768) -> bytes:
    """Make a plain grey picture for characters that have none."""
    rows = (b"\0" + b"\x80" * width) * height
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    body = encode_chunk(b"IHDR", header) + encode_chunk(b"IDAT", zlib.compress(rows, 9))
    return SIGNATURE + body + encode_chunk(b"IEND", b"")
