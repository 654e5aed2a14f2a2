"""Character books: the lore inside a card."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from tavernkit._dataclass import dataclass
from tavernkit._values import EMPTY_OBJECT, FrozenObject, Json, JsonObject, is_mapping, is_sequence, thaw_object
from tavernkit.cards._fields import (
    Field,
    Fields,
    empty_object,
    frozen,
    ignore,
    kind,
    read_bool,
    read_id,
    read_number,
    read_object,
    read_optional_bool,
    read_optional_number,
    read_optional_text,
    read_text,
    read_texts,
)
from tavernkit.errors import LoreParseError, Warn, log_warning


@dataclass(frozen=True, slots=True, kw_only=True)
class BookEntry:
    """One lore entry and its keys.

    ``raw`` is the JSON it was read from, including data of other programs; ``to_json()`` starts from it.
    """

    keys: tuple[str, ...] = ()
    """Words that activate the entry when one of them is in the chat."""
    content: str = ""
    """The text for the prompt."""
    extensions: FrozenObject = dataclasses.field(default_factory=empty_object)
    """Data of other programs, such as SillyTavern's options of the entry."""
    enabled: bool = True
    """False if the entry is switched off."""
    insertion_order: int | float = 0
    """Sorts active entries; smaller numbers come first in the prompt."""
    case_sensitive: bool | None = None
    """True if keys are case-sensitive; None if the entry does not say."""
    use_regex: bool = False
    """True if keys are regular expressions (V3)."""
    constant: bool | None = None
    """True if the entry is always active."""
    name: str | None = None
    """What the entry is called."""
    priority: int | float | None = None
    """When the budget is used up, entries with the lowest number are left out first."""
    id: int | float | str | None = None
    """The entry's id in its book."""
    comment: str | None = None
    """The author's note about the entry; many programs show it as the title."""
    selective: bool | None = None
    """True if a secondary key must be found too."""
    secondary_keys: tuple[str, ...] = ()
    """Keys of which one must be found in addition, if ``selective``."""
    position: str | None = None
    """``before_char`` or ``after_char``: where the text goes."""
    raw: FrozenObject = dataclasses.field(default_factory=empty_object)
    pristine: bool = dataclasses.field(default=False, init=False, repr=False, compare=False)

    @classmethod
    def from_json(cls, data: Mapping[str, object], *, where: str = "", warn: Warn = log_warning) -> BookEntry:
        """Read an entry of a character book.

        Args:
            data: The entry.
            where: Its location in the file, for warnings.
            warn: Called with each warning.
        """
        raw = frozen(data)
        return ENTRY_FIELDS.make(cls, raw, where, warn, raw=raw)

    def to_json(self) -> JsonObject:
        """Write the entry; unchanged fields stay as they were read."""
        if self.pristine:
            return thaw_object(self.raw)
        return ENTRY_FIELDS.write(self, BookEntry.from_json(self.raw, warn=ignore), self.raw)

    def replace(self, **changes: Any) -> BookEntry:
        """Return a copy with some fields changed."""
        return dataclasses.replace(self, **changes)


@dataclass(frozen=True, slots=True, kw_only=True)
class CharacterBook:
    """A card's own lorebook, or a stand-alone one (``lorebook_v3``)."""

    name: str | None = None
    """What the book is called."""
    description: str | None = None
    """What the book is about, for people."""
    scan_depth: int | float | None = None
    """How many of the newest messages are searched for keys; None if the book does not say."""
    token_budget: int | float | None = None
    """The maximum tokens of its entries together; None if the book does not say."""
    recursive_scanning: bool | None = None
    """True if the texts of active entries are searched for keys too; None if the book does not say."""
    extensions: FrozenObject = dataclasses.field(default_factory=empty_object)
    """Data of other programs, kept as it is."""
    entries: tuple[BookEntry, ...] = ()
    """The entries."""
    raw: FrozenObject = dataclasses.field(default_factory=empty_object)
    """The JSON that it was read from; ``to_json()`` starts from it, so unknown keys survive."""
    pristine: bool = dataclasses.field(default=False, init=False, repr=False, compare=False)

    @classmethod
    def from_json(cls, data: Mapping[str, object], *, where: str = "", warn: Warn = log_warning) -> CharacterBook:
        """Read a character book, or the ``data`` of a stand-alone one.

        Args:
            data: The book.
            where: Its location in the file, for warnings.
            warn: Called with each warning.

        Raises:
            LoreParseError: ``data`` is not an object.
        """
        if not is_mapping(data):
            raise LoreParseError(f"a character book must be a JSON object, not {kind(data)}")
        raw = frozen(data)
        return BOOK_FIELDS.make(cls, raw, where, warn, raw=raw)

    @staticmethod
    def fits(value: Mapping[str, object]) -> bool:
        """Return True for the JSON of a card's book (a list of entries with keys), False for the files of programs.

        NovelAI's files have such a list, too, and a ``lorebookVersion``.
        """
        if "lorebookVersion" in value:
            return False
        entries = value.get("entries")
        return is_sequence(entries) and all(is_mapping(entry) and "keys" in entry for entry in entries)

    def to_json(self) -> JsonObject:
        """Write the book; unchanged fields stay as they were read."""
        if self.pristine:
            return thaw_object(self.raw)
        return BOOK_FIELDS.write(self, CharacterBook.from_json(self.raw, warn=ignore), self.raw)

    def replace(self, **changes: Any) -> CharacterBook:
        """Return a copy with some fields changed."""
        return dataclasses.replace(self, **changes)


def _read_entries(value: object, where: str, warn: Warn) -> tuple[BookEntry, ...]:
    items: list[tuple[str, object]]
    if is_sequence(value):
        items = [(str(index), item) for index, item in enumerate(value)]
    elif is_mapping(value):
        warn(f"{where} is an object where a list is expected; its values were used in order")
        items = list(value.items())
    else:
        if value is not None:
            warn(f"{where} is {kind(value)} where a list is expected; it was left out")
        return ()
    entries: list[BookEntry] = []
    for key, item in items:
        if is_mapping(item):
            raw = frozen(item)
            entries.append(ENTRY_FIELDS.make(BookEntry, raw, f"{where}/{key}", warn, raw=raw))
        else:
            warn(f"{where}/{key} is {kind(item)} where an entry is expected; it was left out")
    return tuple(entries)


def _write_entries(entries: object) -> Json:
    return [entry.to_json() for entry in (entries if is_sequence(entries) else ()) if isinstance(entry, BookEntry)]


def read_book(value: object, where: str, warn: Warn) -> CharacterBook | None:
    """Read a card's book field: a book, or None."""
    if is_mapping(value):
        return CharacterBook.from_json(value, where=where, warn=warn)
    if value is not None:
        warn(f"{where} is {kind(value)} where a character book is expected; it was left out")
    return None


def write_book(book: object) -> Json:
    """Write a card's book field."""
    return book.to_json() if isinstance(book, CharacterBook) else None


ENTRY_FIELDS = Fields(
    Field("keys", (), read_texts),
    Field("content", "", read_text),
    Field("extensions", EMPTY_OBJECT, read_object),
    Field("enabled", True, read_bool),
    Field("insertion_order", 0, read_number),
    Field("case_sensitive", None, read_optional_bool),
    Field("use_regex", False, read_bool),
    Field("constant", None, read_optional_bool),
    Field("name", None, read_optional_text),
    Field("priority", None, read_optional_number),
    Field("id", None, read_id),
    Field("comment", None, read_optional_text),
    Field("selective", None, read_optional_bool),
    Field("secondary_keys", (), read_texts),
    Field("position", None, read_optional_text),
)

BOOK_FIELDS = Fields(
    Field("name", None, read_optional_text),
    Field("description", None, read_optional_text),
    Field("scan_depth", None, read_optional_number),
    Field("token_budget", None, read_optional_number),
    Field("recursive_scanning", None, read_optional_bool),
    Field("extensions", EMPTY_OBJECT, read_object),
    Field("entries", (), _read_entries, _write_entries),
)
