"""Lorebooks of every kind, for either platform: in files, in cards and in RisuAI's modules."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from tavernkit._values import JsonObject, is_object, thaw_object
from tavernkit.cards import CharacterBook, load, parse_json
from tavernkit.cards._source import read_file
from tavernkit.errors import FileFormatError, LoreParseError, Warn, WarningLog

if TYPE_CHECKING:
    from tavernkit.silly_tavern import WorldBook

_PNG: Final = b"\x89PNG\r\n\x1a\n"
_BYTE_ORDER_MARKS: Final = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")


def parse_book(data: bytes, name: str, warn: Warn) -> JsonObject:
    """Return the JSON of a book: a world file, a RisuAI export, a card's book or a module's.

    Args:
        data: The content of the file.
        name: The file's name.
        warn: Called with what was repaired.

    Raises:
        FileFormatError: The file contains no book.
    """
    from tavernkit.risu_ai._lorebook.book import export_lorebook

    found = _book_file(data, name, warn)
    if found is not None:
        return found
    bundle = load(data, warn=warn)
    if bundle.book is not None:
        return bundle.book.to_json()
    if bundle.module is not None and bundle.module.lorebook:
        return export_lorebook([thaw_object(entry) for entry in bundle.module.lorebook])
    raise FileFormatError(f"{name} has no lore book")


def world_book(book: JsonObject, name: str) -> WorldBook:
    """Convert a book to a world book, as SillyTavern does when it imports the book or its card.

    Args:
        book: The JSON of the book, which must not be changed from then on.
        name: The name of the world.
    """
    from tavernkit.silly_tavern import WorldBook
    from tavernkit.silly_tavern._world_info.importers import import_json

    if CharacterBook.fits(book):
        return WorldBook.from_character_book(book, name=name)
    return import_json(f"{name}.json", book)


def indexed_book(path: Path, warn: Warn) -> WorldBook | None:
    """Read a world file with its index, see ``WorldBook.index()``; None if there is no usable index.

    Args:
        path: The world file.
        warn: Called if the index cannot be used.
    """
    from tavernkit.silly_tavern._world_info.book import index_of, load_indexed
    from tavernkit.silly_tavern._world_info.importers import world_name
    from tavernkit.silly_tavern._world_info.limits import MAX_BOOK_BYTES

    index = index_of(path)
    if index is None or world_name(f"{path.stem}.json") != path.stem:
        return None
    content = read_file(path, MAX_BOOK_BYTES, limit="MAX_BOOK_BYTES")
    return load_indexed(content, index, path.stem, path, warn)


def _book_file(data: bytes, name: str, warn: Warn) -> JsonObject | None:
    """Return the JSON of a file that contains only a book."""
    from tavernkit.silly_tavern import import_world

    if data.startswith(_PNG):
        try:
            world = import_world(Path(name).name, data, strict=True)
        except LoreParseError:
            return None  # a card, perhaps
        found = world.to_json() if world is not None else None
        return found if is_object(found) else None
    if not (data.startswith(_BYTE_ORDER_MARKS) or data.lstrip()[:1] in (b"{", b"[")):
        return None
    warnings = WarningLog()
    value = parse_json(data, what=name, warn=warnings)
    if not is_object(value) or not ("entries" in value or value.get("type") == "risu"):
        return None
    for message in warnings.messages:
        warn(message)
    return value
