"""Opening a card file of any format, which is detected by its content, and readers for more formats."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from pathlib import PurePath
from typing import Final, TypeAlias, cast

from tavernkit._arguments import require
from tavernkit._values import Json, is_mapping, is_object
from tavernkit.cards._archive import LOCAL, Archive, find_end, open_archive
from tavernkit.cards._assets import Asset, Blob, Lookup, SourceBlob, collect_assets
from tavernkit.cards._book import CharacterBook
from tavernkit.cards._bundle import Bundle, Format
from tavernkit.cards._byaf import read_byaf
from tavernkit.cards._character import Character
from tavernkit.cards._charx import main_picture, read_charx
from tavernkit.cards._fields import ignore
from tavernkit.cards._json_text import parse_json
from tavernkit.cards._limits import DEFAULT_LIMITS, Limits
from tavernkit.cards._pictures import image_format, read_jpeg, read_webp
from tavernkit.cards._png import ChunkAsset, choose_card, read_png
from tavernkit.cards._risum import MODULE_TYPE, Module, is_module, read_risum
from tavernkit.cards._source import Readable, Source, as_source, read_all, read_head
from tavernkit.cards._yaml_card import parse_yaml, without_short_form
from tavernkit.cards.errors import StrictCardError, StrictVersionError, UnknownFormatError, VersionWarning, ZipError
from tavernkit.errors import ConfigError, Warn, WarningLog

LOREBOOK_SPEC = "lorebook_v3"

Reader: TypeAlias = Callable[[str, Limits, Warn], Bundle]
"""Gets the path of a file, the limits of the call and where to report damage; returns the contents of the file.

Raises ``FileFormatError`` if it cannot read the file.
"""


class ReaderRegistry:
    """Readers by file extension (``.mycard``). They take precedence over our own, which detect formats by content."""

    def __init__(self, readers: Mapping[str, Reader] | None = None) -> None:
        self._readers: dict[str, Reader] = {}
        self._lock = threading.Lock()
        for ending, reader in (readers or {}).items():
            self.register(ending, reader)

    def register(self, ending: str, reader: Reader) -> None:
        """Register a reader for a file extension; it replaces an earlier one.

        Args:
            ending: The file extension, such as ``.note``.
            reader: The function that reads the file.

        Raises:
            ConfigError: ``ending`` is not a valid file extension.
        """
        name = f".{ending.strip().lower().removeprefix('.')}"
        if name == "." or PurePath(f"x{name}").suffix != name:
            raise ConfigError(f"ending must be a file name extension such as '.mycard', not {ending!r}")
        with self._lock:
            self._readers = {**self._readers, name: reader}

    @property
    def endings(self) -> tuple[str, ...]:
        """The file extensions with a reader."""
        return tuple(self._readers)

    def find(self, readable: Readable) -> Reader | None:
        """Return the reader for a path; None if it is not a path or has no reader."""
        if not self._readers or not isinstance(readable, (str, os.PathLike)):
            return None
        return self._readers.get(PurePath(readable).suffix.lower())

    def copy(self) -> ReaderRegistry:
        """An independent registry with the same readers."""
        return ReaderRegistry(self._readers)


default_readers = ReaderRegistry()
"""The readers of this process."""

register_reader = default_readers.register


def load(
    source: Readable,
    *,
    limits: Limits | None = None,
    strict: bool = False,
    warn: Warn | None = None,
    readers: ReaderRegistry = default_readers,
) -> Bundle:
    """Open a card file: a path, bytes, or a binary file object (which must stay open while assets are read).

    The format is detected by content; ``readers`` add formats. Damage that leaves a usable card is reported in
    ``bundle.warnings`` (and to ``warn``); in ``strict`` mode it raises an ``InvalidCardError``
    that is a ``StrictModeError`` too, and an ``UnsupportedVersionError`` if the card's version is not
    known. A file without a usable card raises a ``FileFormatError`` or
    ``InvalidCardError``, one that exceeds a limit ``LimitExceededError``.

    Args:
        source: A path, bytes or a binary file object.
        limits: Limits on sizes and depth; by default ``DEFAULT_LIMITS``.
        strict: Raise at the first damage.
        warn: Called with each warning.
        readers: Readers for your own formats.
    """
    require("limits", limits, Limits | None)
    log = WarningLog(warn=_refuse if strict else warn)
    chosen = limits or DEFAULT_LIMITS
    opened = as_source(source, chosen)
    read = readers.find(source)
    if read is None:
        return _load(opened, chosen, log).replace(warnings=tuple(log.messages))
    bundle = read(os.fspath(cast("str", source)), chosen, log)
    require("what a reader of card files returns", bundle, Bundle)
    return bundle.replace(warnings=(*bundle.warnings, *log.messages))


def _refuse(message: str) -> None:
    raise (StrictVersionError if isinstance(message, VersionWarning) else StrictCardError)(message)


def _load(source: Source, limits: Limits, warn: Warn) -> Bundle:
    head = read_head(source)
    picture = image_format(head)
    if picture is Format.PNG:
        return _load_png(source, limits, warn)
    if picture is Format.JPEG:
        return _load_jpeg(source, limits, warn)
    if picture is Format.WEBP:
        return _load_webp(source, limits, warn)
    if head.startswith(LOCAL) or has_archive(source):
        return _load_archive(source, limits, warn)
    if is_module(head):
        module = read_risum(source, limits, warn)
        return Bundle(module=module, assets=module.assets, source_format=Format.RISUM)
    return _load_text(source, text_format(head), limits, warn)


def _load_archive(source: Source, limits: Limits, warn: Warn) -> Bundle:
    archive = open_archive(source, limits, warn)
    return read_byaf(archive) if archive_format(archive) is Format.BYAF else read_charx(archive)


def _load_png(source: Source, limits: Limits, warn: Warn) -> Bundle:
    content = read_png(source, limits, warn)
    if not content.texts and source.size > content.end and has_archive(source):
        return _load_archive(source, limits, warn)
    _, card = choose_card(content, limits, warn)

    def lookup(key: str) -> Blob | None:
        chunk = content.assets.get(key)
        return ChunkAsset(source, key, chunk, limits) if chunk else None

    format_ = Format.APNG if content.animated else Format.PNG
    return _with_picture(card, source, lookup, format_, limits, warn)


def _load_jpeg(source: Source, limits: Limits, warn: Warn) -> Bundle:
    if has_archive(source):
        return _load_archive(source, limits, warn)
    return _with_picture(read_jpeg(source, limits, warn), source, _nothing, Format.JPEG, limits, warn)


def _load_webp(source: Source, limits: Limits, warn: Warn) -> Bundle:
    return _with_picture(read_webp(source, limits, warn), source, _nothing, Format.WEBP, limits, warn)


def _with_picture(card: Json, source: Source, lookup: Lookup, format_: Format, limits: Limits, warn: Warn) -> Bundle:
    character = Character.from_card(card, warn=warn)
    blob = SourceBlob(source)
    ext = {Format.APNG: "png", Format.JPEG: "jpg"}.get(format_, format_.value)
    image = Asset(type="icon", name="main", ext=ext, blob=blob, max_bytes=limits.max_image_bytes)
    assets = collect_assets(character, lookup, blob, limits, warn)
    return Bundle(card=character, assets=assets, image=image, source_format=format_)


def _load_text(source: Source, format_: Format, limits: Limits, warn: Warn) -> Bundle:
    if format_ is Format.JSON:
        data = read_all(source, limits.max_json_file_bytes, limit="max_json_file_bytes", what="the JSON file")
        value = parse_json(data, what="the file", warn=warn, limits=limits)
    else:
        data = read_all(source, limits.max_yaml_bytes, limit="max_yaml_bytes", what="the YAML file")
        value = parse_yaml(data, limits, warn)
        if not is_object(value):
            raise UnknownFormatError(_UNKNOWN)
        value = without_short_form(value)
    return _from_json(value, format_, limits, warn)


def _from_json(value: Json, format_: Format, limits: Limits, warn: Warn) -> Bundle:
    if is_object(value) and value.get("spec") == LOREBOOK_SPEC and is_mapping(value.get("data")):
        data = value["data"]
        assert is_mapping(data)
        return Bundle(lore_books=(CharacterBook.from_json(data, where="/data", warn=warn),), source_format=format_)
    if is_object(value) and value.get("type") == MODULE_TYPE:
        inner = value.get("module")  # as in .risum files; elsewhere the fields are next to the type
        return Bundle(module=Module.from_json(inner if is_object(inner) else value, warn=warn), source_format=format_)
    character = Character.from_card(value, warn=warn)
    assets = collect_assets(character, _nothing, None, limits, warn)
    return Bundle(card=character, assets=assets, image=main_picture(assets), source_format=format_)


def _nothing(path: str) -> Blob | None:
    del path
    return None


_JSON_STARTS = (b"{", b"[", b'"')
_BOMS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff", b"\0\0\xfe\xff")
_UNKNOWN: Final = "the file is not a card in a known format (JSON, YAML, PNG, JPEG, WEBP, CHARX, BYAF, RISUM)"


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
    if is_module(head):
        return Format.RISUM
    return text_format(head)


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
        raise UnknownFormatError(_UNKNOWN)
    return Format.YAML
