"""Lore books of every kind, for either platform: files of their own, inside cards, inside RisuAI's modules."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from tavernkit.cli.files import STDIN, naming, read_bytes, shown
from tavernkit.errors import FileFormatError, LoreParseError, WarningLog, log_warning
from tavernkit.values import JsonObject, is_object, thaw_object

if TYPE_CHECKING:
    from tavernkit.silly_tavern import WorldBook

_PNG = b"\x89PNG\r\n\x1a\n"
_BYTE_ORDER_MARKS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")


def load_world(path: Path) -> WorldBook:
    """Read a book of any kind as a world book."""
    return world_of(read_book(path), "stdin" if str(path) == STDIN else path.stem)


def world_of(book: JsonObject, name: str) -> WorldBook:
    """Turn a book into a world book, as SillyTavern does when it imports the book or the card that has it."""
    from tavernkit.cards import CharacterBook
    from tavernkit.silly_tavern import WorldBook, import_world

    if CharacterBook.fits(book):
        return WorldBook.from_character_book(book, name=name)
    return import_world(f"{name}.json", json.dumps(book), strict=True) or WorldBook(name, book)


def read_risu_lore(path: Path) -> list[JsonObject]:
    """Read a book of any kind as RisuAI's entries."""
    return risu_entries(read_book(path))


def risu_entries(book: JsonObject) -> list[JsonObject]:
    """Turn a book into RisuAI's entries, as RisuAI does when it imports the book or the card that has it."""
    from tavernkit.cards import CharacterBook
    from tavernkit.cards.risu_ai.lorebook import lorebook_from_book
    from tavernkit.risu_ai.lorebook.imports import import_lorebook

    if CharacterBook.fits(book):
        return lorebook_from_book(CharacterBook.from_json(book, warn=log_warning))
    return import_lorebook(book, warn=log_warning)


def read_book(path: Path) -> JsonObject:
    """The JSON of a book: of a world file, an export of RisuAI's, a card's own book or a module's."""
    from tavernkit.cards import load
    from tavernkit.risu_ai.lorebook.imports import export_lorebook

    with naming(path):
        data = read_bytes(path)
        found = _book_file(data, path)
        if found is not None:
            return found
        bundle = load(data, warn=lambda message: log_warning(f"{shown(path)}: {message}"))
        if bundle.book is not None:
            return bundle.book.to_json()
        if bundle.module is not None and bundle.module.lorebook:
            return export_lorebook([thaw_object(entry) for entry in bundle.module.lorebook])
        raise FileFormatError(f"{shown(path)} has no lore book")


def _book_file(data: bytes, path: Path) -> JsonObject | None:
    """The JSON of a file that is a book and nothing else."""
    from tavernkit.cards import parse_json
    from tavernkit.silly_tavern import import_world

    if data.startswith(_PNG):
        try:
            world = import_world(path.name, data, strict=True)
        except LoreParseError:
            return None  # a card, perhaps
        found = world.to_json() if world is not None else None
        return found if is_object(found) else None
    if not (data.startswith(_BYTE_ORDER_MARKS) or data.lstrip()[:1] in (b"{", b"[")):
        return None
    warnings = WarningLog()
    value = parse_json(data, what=shown(path), warn=warnings)
    if not is_object(value) or not ("entries" in value or value.get("type") == "risu"):
        return None
    for message in warnings.messages:
        log_warning(message)
    return value
