"""Lore books of every kind, for either platform: files of their own, inside cards, inside RisuAI's modules."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tavernkit.cards.book import is_character_book
from tavernkit.cli.files import STDIN, naming, read_bytes, shown
from tavernkit.errors import FileFormatError, WarningLog, log_warning
from tavernkit.values import JsonObject, is_object, thaw_object

if TYPE_CHECKING:
    from tavernkit.silly_tavern import WorldBook

_BYTE_ORDER_MARKS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")


def load_world(path: Path) -> WorldBook:
    """Read a book of any kind as a world book."""
    return world_of(read_book(path), "stdin" if str(path) == STDIN else path.stem)


def world_of(book: JsonObject, name: str) -> WorldBook:
    """Turn a book into a world book, as SillyTavern does when it imports the book or the card that has it."""
    from tavernkit.silly_tavern.world_info import WorldBook
    from tavernkit.silly_tavern.world_info.importers import convert_foreign_world

    if is_character_book(book):
        return WorldBook.from_character_book(book, name=name)
    return WorldBook(name, convert_foreign_world(book) or book)


def read_risu_lore(path: Path) -> list[JsonObject]:
    """Read a book of any kind as RisuAI's entries."""
    return risu_entries(read_book(path))


def risu_entries(book: JsonObject) -> list[JsonObject]:
    """Turn a book into RisuAI's entries, as RisuAI does when it imports the book or the card that has it."""
    from tavernkit.cards import CharacterBook
    from tavernkit.cards.risu_ai.lorebook import lorebook_from_book
    from tavernkit.risu_ai.lorebook.imports import import_lorebook

    if is_character_book(book):
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
    from tavernkit.cards.json_text import parse_json
    from tavernkit.silly_tavern.errors import LoreParseError
    from tavernkit.silly_tavern.world_info.lore_png import is_png, read_lore_png

    if is_png(data):
        try:
            value = read_lore_png(data, log_warning)
        except LoreParseError:
            return None  # a card, perhaps
        return value if is_object(value) else None
    if not (data.startswith(_BYTE_ORDER_MARKS) or data.lstrip()[:1] in (b"{", b"[")):
        return None
    warnings = WarningLog()
    value = parse_json(data, what=shown(path), warn=warnings)
    if not is_object(value) or not ("entries" in value or value.get("type") == "risu"):
        return None
    for message in warnings.messages:
        log_warning(message)
    return value
