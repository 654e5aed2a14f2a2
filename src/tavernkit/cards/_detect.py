"""Detects the format of a file by its content."""

from __future__ import annotations

from tavernkit.cards import _jpeg as jpeg
from tavernkit.cards import _png as png
from tavernkit.cards import _risum as risum
from tavernkit.cards import _webp as webp
from tavernkit.cards._archive import LOCAL, Archive, find_end, open_archive
from tavernkit.cards._bundle import Format
from tavernkit.cards._fields import ignore
from tavernkit.cards._limits import DEFAULT_LIMITS, Limits
from tavernkit.cards._source import Readable, Source, as_source
from tavernkit.cards.errors import UnknownFormatError, ZipError

_HEAD_BYTES = 512
_JSON_STARTS = (b"{", b"[", b'"')
_BOMS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff", b"\0\0\xfe\xff")


def read_head(source: Source) -> bytes:
    """Return the first bytes of a file, which show its format."""
    with source.open() as stream:
        return stream.read(_HEAD_BYTES)


def has_archive(source: Source) -> bool:
    """Return True if a file ends like an archive."""
    with source.open() as stream:
        return find_end(stream) is not None


def archive_format(archive: Archive) -> Format:
    """Return whether an archive is CHARX or BYAF."""
    if archive.find("manifest.json") and not archive.find("card.json"):
        return Format.BYAF
    if archive.find_ending("card.json"):
        return Format.CHARX
    if archive.find_ending("manifest.json"):
        return Format.BYAF
    raise ZipError("the archive has neither a card.json nor a manifest.json: it is not a character")


def detect_format(readable: Readable, *, limits: Limits = DEFAULT_LIMITS) -> Format:
    """Return a file's format by its content, without reading its card; raises ``UnknownFormatError``.

    Args:
        readable: A path, bytes or a binary file object.
        limits: Limits on sizes and depth; by default ``DEFAULT_LIMITS``.
    """
    source = as_source(readable, limits)
    head = read_head(source)
    format_ = image_format(head)
    if format_ is not None:
        return format_
    if head.startswith(LOCAL) or has_archive(source):
        return archive_format(open_archive(source, limits, ignore))
    if risum.is_module(head):
        return Format.RISUM
    return text_format(head)


def image_format(head: bytes) -> Format | None:
    """Return the kind of picture that a file begins with, if any; an APNG counts as PNG."""
    if head.startswith(png.SIGNATURE):
        return Format.PNG
    if head.startswith(jpeg.SIGNATURE):
        return Format.JPEG
    return Format.WEBP if webp.is_webp(head) else None


def text_format(head: bytes) -> Format:
    """Return whether a text is JSON or YAML."""
    text = head
    for bom in _BOMS:
        text = text.removeprefix(bom)
    text = text.lstrip(b" \t\r\n\0")
    if not text:
        raise UnknownFormatError("the file is empty")
    if text.startswith(_JSON_STARTS):
        return Format.JSON
    if b"\0" in text and not head.startswith(_BOMS):
        raise UnknownFormatError("the file has an unknown format")
    return Format.YAML
