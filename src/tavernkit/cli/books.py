"""Lorebooks on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tavernkit._values import JsonObject
from tavernkit.cli.files import STDIN, naming, read_bytes, shown
from tavernkit.conversation._books import indexed_book, parse_book, world_book
from tavernkit.errors import log_warning

if TYPE_CHECKING:
    from tavernkit.risu_ai import Lorebook
    from tavernkit.silly_tavern import WorldBook


def load_world(path: Path) -> WorldBook:
    """Read a book of any kind as a world book."""
    if str(path) == STDIN:
        return world_book(read_book(path), "stdin")
    indexed = indexed_book(path, log_warning)
    return world_book(read_book(path), path.stem) if indexed is None else indexed


def load_lorebook(path: Path) -> Lorebook:
    """Read a book of any kind as RisuAI's."""
    from tavernkit.risu_ai import Lorebook

    return Lorebook.from_json(read_book(path), name=path.stem)


def read_book(path: Path) -> JsonObject:
    """Return the JSON of a book: a world file, a RisuAI export, a card's book or a module's."""

    def warn(message: str) -> None:
        log_warning(message if shown(path) in message else f"{shown(path)}: {message}")

    with naming(path):
        return parse_book(read_bytes(path), shown(path), warn)
