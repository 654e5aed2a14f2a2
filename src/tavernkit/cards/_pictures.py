"""JPEG and WebP pictures: the card in their EXIF texts, and conversions with Pillow (the extra ``images``)."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator
from importlib import import_module
from typing import Any, BinaryIO, Final

from tavernkit._dataclass import dataclass
from tavernkit._values import Json
from tavernkit.cards._bundle import Format
from tavernkit.cards._fields import ignore
from tavernkit.cards._json_text import decode_payload, encode_payload
from tavernkit.cards._limits import Limits
from tavernkit.cards._png import SIGNATURE as PNG_SIGNATURE
from tavernkit.cards._source import Source, read_all
from tavernkit.cards.errors import EncryptedCardError, ImageError, JsonError
from tavernkit.errors import LimitExceededError, Warn


def image_format(head: bytes) -> Format | None:
    """Return the kind of picture that a file begins with, if any; an APNG counts as PNG."""
    if head.startswith(PNG_SIGNATURE):
        return Format.PNG
    if head.startswith(JPEG_SIGNATURE):
        return Format.JPEG
    return Format.WEBP if is_webp(head) else None


JPEG_SIGNATURE = b"\xff\xd8\xff"
_START_OF_SCAN = 0xDA
_END_OF_IMAGE = 0xD9
_COMMENT = 0xFE
_APP1 = 0xE1
_EXIF_HEADER = b"Exif\0\0"
_ALONE = (0x01, *range(0xD0, 0xD9))

JPEG_PLACEHOLDER = (
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
    if stream.read(2) != JPEG_SIGNATURE[:2]:
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
    elif segment.marker == _APP1 and segment.data.startswith(_EXIF_HEADER):
        for text in exif_texts(segment.data[len(_EXIF_HEADER) :]):
            yield len(_EXIF_HEADER) + text.offset, text.stored, text.data


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


def jpeg_without_card(image: bytes, limits: Limits) -> bytes:
    """Blank out a card in a JPEG's own segments, so that it cannot contradict the archive after the picture."""
    for segment in list(segments(io.BytesIO(image), limits)):
        for start, stored, text in _texts(segment):
            if try_payload(text, what="", limits=limits, warn=ignore) is not None:
                at = segment.offset + 4 + start
                image = image[:at] + b" " * len(stored) + image[at + len(stored) :]
    return image


_EXTENDED = b"VP8X"
_EXIF_CHUNK = b"EXIF"
_HAS_EXIF = 0x08
_HAS_ALPHA = 0x10

WEBP_PLACEHOLDER = bytes.fromhex("524946461a000000574542505650384c0d0000002f00000010071011118888fe0700")
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
        if chunk.kind == _EXIF_CHUNK:
            for text in exif_texts(chunk.data.removeprefix(b"Exif\0\0")):
                card = try_payload(text.data, what="WebP EXIF comment", limits=limits, warn=warn)
                if card is not None:
                    return card
    raise ImageError("the WebP has no character card in its EXIF comment")


def write_webp(image: bytes, card: object, limits: Limits, warn: Warn) -> bytes:
    """Put a card into a WebP; all chunks but the EXIF one stay byte for byte."""
    kept = [chunk for chunk in chunks(image, limits, warn) if chunk.kind != _EXIF_CHUNK]
    if kept and kept[0].kind == _EXTENDED:
        header = bytes([kept[0].data[0] | _HAS_EXIF]) + kept[0].data[1:]
        kept[0] = Chunk(_EXTENDED, header)
    else:
        kept.insert(0, Chunk(_EXTENDED, _extended_header(kept)))
    body = b"".join(chunk.encode() for chunk in (*kept, Chunk(_EXIF_CHUNK, build_exif(encode_payload(card)))))
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


MAX_PIXELS: Final = 64_000_000
"""Larger pictures are not decoded: a small file may contain a huge one."""
_READ: Final = ("PNG", "JPEG", "WEBP", "GIF", "BMP")
_WRITTEN: Final = {"png": "PNG", "jpg": "JPEG", "webp": "WEBP"}
_QUALITY: Final = 95


class PillowMissingError(ImageError):
    """Pillow is not installed."""


def convert_picture(ext: str, data: bytes, warn: Warn) -> bytes:
    """Return a picture in another format, as it looks; for an animation, the first frame.

    Args:
        ext: ``png``, ``jpg`` or ``webp``.
        data: The picture, in any format that cards have.
        warn: Called if animation or transparency is lost.

    Raises:
        ImageError: The picture cannot be read or is too large, or Pillow is not installed.
    """
    image: Any
    try:
        image = import_module("PIL.Image")
    except ImportError as error:
        raise PillowMissingError("the extra 'images' is not installed (pip install 'tavernkit[images]')") from error
    try:
        with image.open(io.BytesIO(data), formats=_READ) as picture:
            width, height = picture.size
            if width * height > MAX_PIXELS:
                raise ImageError(f"it has {width} x {height} pixels, which is more than {MAX_PIXELS}")
            if getattr(picture, "is_animated", False):
                warn(f"the picture is animated: only its first frame is in the {ext.upper()}")
                picture.seek(0)
            return _encode(image, picture, ext, warn)
    except ImageError:
        raise
    except Exception as error:  # a decoder of untrusted files may raise anything
        raise ImageError(f"it cannot be read ({type(error).__name__})") from error


def _encode(image: Any, picture: Any, ext: str, warn: Warn) -> bytes:
    profile = picture.info.get("icc_profile")
    transparent = picture.mode in ("RGBA", "LA", "PA") or "transparency" in picture.info
    # The new picture has no EXIF data, which say how a camera was held.
    picture = import_module("PIL.ImageOps").exif_transpose(picture).convert("RGBA" if transparent else "RGB")
    if ext == "jpg" and transparent:
        if picture.getchannel("A").getextrema()[0] < 255:
            warn("a JPEG cannot be transparent: the picture was put on white")
        ground = image.new("RGBA", picture.size, (255, 255, 255, 255))
        ground.alpha_composite(picture)
        picture = ground.convert("RGB")
    out = io.BytesIO()
    options: dict[str, object] = {} if ext == "png" else {"quality": _QUALITY}
    if profile:
        options["icc_profile"] = profile
    picture.save(out, _WRITTEN[ext], **options)
    return out.getvalue()
