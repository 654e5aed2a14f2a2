"""A lorebook that a build gets from the application, as RisuAI's modules have one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from tavernkit._dataclass import dataclass
from tavernkit._values import FrozenObject, JsonObject, freeze_object, is_mapping
from tavernkit.cards._book import CharacterBook
from tavernkit.cards._json_text import parse_json
from tavernkit.cards._limits import DEFAULT_LIMITS
from tavernkit.cards._risu_ai.lorebook import lorebook_from_book
from tavernkit.cards._source import FileContent, read_file, stem
from tavernkit.errors import LoreParseError, Warn, log_warning, refuse_warning
from tavernkit.risu_ai._lorebook.imports import export_lorebook, import_lorebook


@dataclass(frozen=True, slots=True)
class Lorebook:
    """A lorebook as RisuAI stores it."""

    name: str
    """What the book is called."""
    entries: tuple[FrozenObject, ...] = ()
    """Its entries, as RisuAI stores them."""

    @classmethod
    def from_json(cls, data: Mapping[str, object], *, name: str = "", warn: Warn = log_warning) -> Lorebook:
        """Convert a lorebook as RisuAI does when it imports the file, or a card with the book.

        Args:
            data: The JSON of RisuAI's export, of a card's book, or of another program's file with ``entries``.
            name: What the book is called; by default, the name in a card's book.
            warn: Called with each warning.

        Raises:
            LoreParseError: It is not a lorebook.
        """
        if is_mapping(data) and CharacterBook.fits(data):
            return cls.from_character_book(CharacterBook.from_json(data, warn=warn), name=name)
        return cls(name, tuple(map(freeze_object, import_lorebook(data, warn=warn))))

    @classmethod
    def from_character_book(cls, book: CharacterBook, *, name: str = "") -> Lorebook:
        """Convert the book of a card.

        Args:
            book: The book, such as ``tk.load(path).book``.
            name: What it is called, instead of its own name.
        """
        return cls(name or book.name or "", tuple(map(freeze_object, lorebook_from_book(book))))

    @classmethod
    def load(cls, source: FileContent, *, warn: Warn = log_warning, strict: bool = False) -> Lorebook:
        """Read a lorebook file, see ``from_json()``; the book is named after the file.

        Args:
            source: The file: its path or its content.
            warn: Called with each warning.
            strict: Raise an error instead of warning.

        Raises:
            LoreParseError: It is not a lorebook.
        """
        content = read_file(source, DEFAULT_LIMITS.max_json_file_bytes, limit="max_json_file_bytes")
        warn, name = refuse_warning if strict else warn, stem(source)
        data = parse_json(content, what=name or "lorebook", warn=warn)
        if not is_mapping(data):
            raise LoreParseError("a lorebook file is a JSON object")
        return cls.from_json(data, name=name, warn=warn)

    def to_json(self) -> JsonObject:
        """Return RisuAI's export file."""
        return export_lorebook(self.entries)


BookInput: TypeAlias = Lorebook | CharacterBook | Mapping[str, object]
"""A lorebook, the book of a card, or the JSON of a lorebook file of any program."""


def lorebook(value: BookInput, warn: Warn) -> Lorebook:
    """Return an input as a lorebook.

    Args:
        value: The input.
        warn: Called with each warning.
    """
    if isinstance(value, Lorebook):
        return value
    if isinstance(value, CharacterBook):
        return Lorebook.from_character_book(value)
    return Lorebook.from_json(value, warn=warn)
