"""EXIF texts, in which programs store a card."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from tavernkit._dataclass import dataclass

USER_COMMENT = 0x9286
IMAGE_DESCRIPTION = 0x010E
_EXIF_IFD = 0x8769
_MAX_TAGS = 1000
_ENCODINGS = (b"ASCII\0\0\0", b"UNICODE\0", b"JIS\0\0\0\0\0", b"\0" * 8)


@dataclass(frozen=True, slots=True)
class ExifText:
    """A text and where in the EXIF block it is; ``stored`` is the raw value, with its encoding prefix."""

    data: bytes
    offset: int
    stored: bytes


def exif_texts(block: bytes) -> Iterator[ExifText]:
    """Yield the user comment and the description of an EXIF block (a TIFF file); stop if it is broken."""
    order = {b"II*\0": "<", b"MM\0*": ">"}.get(block[:4])
    if order is None:
        return
    waiting = [_number(block, order, 4)]
    for _ in range(2):  # the first directory, then the EXIF directory that it points to
        directory = waiting.pop() if waiting else None
        if directory is None or directory + 2 > len(block):
            return
        count = min(struct.unpack_from(order + "H", block, directory)[0], _MAX_TAGS)
        for index in range(count):
            at = directory + 2 + 12 * index
            if at + 12 > len(block):
                return
            tag, kind, length = struct.unpack_from(order + "HHI", block, at)
            if tag == _EXIF_IFD:
                waiting.append(_number(block, order, at + 8))
            elif tag in (USER_COMMENT, IMAGE_DESCRIPTION) and kind in (1, 2, 7):
                offset = at + 8 if length <= 4 else _number(block, order, at + 8)
                stored = block[offset : offset + length]
                yield ExifText(_plain_text(stored, order), offset, stored)


def _number(block: bytes, order: str, at: int) -> int:
    return struct.unpack_from(order + "I", block, at)[0] if at + 4 <= len(block) else len(block)


def _plain_text(data: bytes, order: str) -> bytes:
    encoding = data[:8]
    if encoding not in _ENCODINGS:
        return data
    if encoding != b"UNICODE\0":
        return data[8:]
    text = data[8:].decode("utf-16-le" if order == "<" else "utf-16-be", errors="replace")
    return text.encode("utf-8", errors="replace")


def build_exif(user_comment: bytes) -> bytes:
    """Make an EXIF block that contains only a user comment."""
    comment = _ENCODINGS[0] + user_comment
    first = struct.pack("<HHHIII", 1, _EXIF_IFD, 4, 1, 26, 0)
    second = struct.pack("<HHHIII", 1, USER_COMMENT, 7, len(comment), 44, 0)
    return b"II*\0" + struct.pack("<I", 8) + first + second + comment
