"""Compressed bytes as RisuAI reads them: gzip, zlib or bare deflate, recognised by their first bytes."""

from __future__ import annotations

import zlib

from tavernkit.errors import LimitExceededError

GZIP = b"\x1f\x8b\x08"
_SALVAGE_CHUNK = 512
"""How much is decompressed at a time in damaged data; the piece with the damage is lost."""
_GZIP_TRAILER, _ZLIB_TRAILER = 8, 4
_HAS_CHECKSUM, _HAS_EXTRA, _HAS_NAME, _HAS_COMMENT = 2, 4, 8, 16


class CompressionError(ValueError):
    """The bytes cannot be decompressed."""


def decompress(data: bytes, max_bytes: int) -> bytes:
    """Decompress as the library does that RisuAI uses: no checksum counts, but the size at the end of gzip data does.

    The trailer is cut off without a check, so bytes after the data usually break it; a size that is too small truncates
    the result.
    """
    if data[:3] == GZIP:
        size = int.from_bytes(data[-4:], "little")
        return _inflate(data[_gzip_header(data) : -_GZIP_TRAILER], max_bytes)[:size]
    if is_zlib(data):
        return _inflate(data[2:-_ZLIB_TRAILER], max_bytes)
    return _inflate(data, max_bytes)


def gunzip(data: bytes, max_bytes: int) -> bytes:
    """Decompress gzip data, checking its checksum, with nothing after it."""
    try:
        stream = zlib.decompressobj(16 + zlib.MAX_WBITS)
        found = stream.decompress(data, max_bytes + 1)
    except zlib.error as error:
        raise CompressionError(f"the gzip data is damaged: {error}") from error
    _limit(found, max_bytes)
    if not stream.eof:
        raise CompressionError("the gzip data is cut off")
    if stream.unused_data:
        raise CompressionError("there are bytes after the gzip data")
    return found


def salvage(data: bytes, max_bytes: int) -> bytes:
    """Decompress as much of damaged data as possible, without looking at checksums and sizes."""
    begin = _gzip_header(data) if data[:3] == GZIP else 2 if is_zlib(data) else 0
    stream, found = zlib.decompressobj(-zlib.MAX_WBITS), bytearray()
    for start in range(begin, len(data), _SALVAGE_CHUNK):
        try:
            found += stream.decompress(data[start : start + _SALVAGE_CHUNK], max_bytes + 1 - len(found))
        except zlib.error:
            break
        _limit(found, max_bytes)
        if stream.eof:
            break
    return bytes(found)


def is_zlib(data: bytes) -> bool:
    """Return True if the bytes begin like zlib data."""
    return len(data) > 1 and data[0] & 15 == 8 and data[0] >> 4 <= 7 and int.from_bytes(data[:2], "big") % 31 == 0


def _inflate(data: bytes, max_bytes: int) -> bytes:
    try:
        stream = zlib.decompressobj(-zlib.MAX_WBITS)
        found = stream.decompress(data, max_bytes + 1)
    except zlib.error as error:
        raise CompressionError(f"the data cannot be decompressed: {error}") from error
    _limit(found, max_bytes)
    if not stream.eof:
        raise CompressionError("the compressed data is cut off")
    return found


def _limit(found: bytes | bytearray, max_bytes: int) -> None:
    if len(found) > max_bytes:
        raise LimitExceededError(f"the data unpacks to more than {max_bytes} bytes", limit="MAX_UNPACKED_DATABASE")


def _gzip_header(data: bytes) -> int:
    """Return where the deflated data begins."""
    flags, at = data[3] if len(data) > 3 else 0, 10
    if flags & _HAS_EXTRA:
        at += 2 + int.from_bytes(data[at : at + 2], "little")
    for flag in (_HAS_NAME, _HAS_COMMENT):
        if flags & flag:
            at = data.find(b"\0", at) + 1 or len(data)
    return at + (2 if flags & _HAS_CHECKSUM else 0)
