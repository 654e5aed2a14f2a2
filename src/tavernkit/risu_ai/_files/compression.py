"""Compressed bytes as RisuAI reads them: gzip, zlib, bare deflate, recognised by their first bytes, even if damaged."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Mapping, Sequence

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


_KIND = re.compile(b"[\0-\6](?=[\0\1])")
_BODIES = (b'{"', b"{}", b"[{", b"[]")
"""How RisuAI's JSON of a block begins."""
_SPACE = re.compile(r"[ \t\r\n]*")


def find_block(data: bytes, start: int) -> int:
    """Return where the next block begins, or the end of the data.

    JSON escapes the bytes that a block begins with, so nothing in a block that is not compressed looks like another.
    """
    for found in _KIND.finditer(data, start):
        if _is_block(data, found.start()):
            return found.start()
    return len(data)


def _is_block(data: bytes, at: int) -> bool:
    name = at + 3
    body = name + int.from_bytes(data[at + 2 : name], "little") + 4
    if not data.startswith(GZIP if data[at + 1] else _BODIES, body):
        return False
    try:
        text = data[name : body - 4].decode()
    except UnicodeDecodeError:
        return False
    return text.isprintable() and '"' not in text  # a quote: it is JSON after a length that looks like a kind


def whole_parts(text: str, decoder: json.JSONDecoder) -> tuple[Mapping[str, object] | Sequence[object], str]:
    """Return the members of an object, or the items of a list, before the damage; and the last key.

    A value counts only with the comma or bracket after it: a number could be cut off.
    """
    members: dict[str, object] = {}
    items: list[object] = []
    at, last = _skip(text, 0), ""
    is_object = text[at : at + 1] == "{"
    more, end = bool(is_object or text[at : at + 1] == "["), "}" if is_object else "]"
    try:
        while more:
            at, key = _skip(text, at + 1), ""
            if is_object:
                key, at = _key(text, at, decoder)
            value, at = decoder.raw_decode(text, at)
            at = _skip(text, at)
            more = text[at : at + 1] == ","
            if not more and text[at : at + 1] != end:
                break
            members[key] = value
            items.append(value)
            last = key
    except (ValueError, RecursionError):
        pass
    return (members if is_object else items), last


def _key(text: str, at: int, decoder: json.JSONDecoder) -> tuple[str, int]:
    key, at = decoder.raw_decode(text, at)
    at = _skip(text, at)
    if not isinstance(key, str) or text[at : at + 1] != ":":
        raise ValueError("not a key")
    return key, _skip(text, at + 1)


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at
