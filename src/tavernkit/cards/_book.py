"""Character books: the lore that a card carries."""

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
    """One piece of lore and the keys that call it.

    ``raw`` is the JSON it was read from, with all that other programs put there; `to_json` starts from it.
    """

    keys: tuple[str, ...] = ()
    content: str = ""
    extensions: FrozenObject = dataclasses.field(default_factory=empty_object)
    enabled: bool = True
    insertion_order: int | float = 0
    case_sensitive: bool | None = None
    use_regex: bool = False
    constant: bool | None = None
    name: str | None = None
    priority: int | float | None = None
    id: int | float | str | None = None
    comment: str | None = None
    selective: bool | None = None
    secondary_keys: tuple[str, ...] = ()
    position: str | None = None
    raw: FrozenObject = dataclasses.field(default_factory=empty_object)
    pristine: bool = dataclasses.field(default=False, init=False, repr=False, compare=False)

    @classmethod
    def from_json(cls, data: Mapping[str, object], *, where: str = "", warn: Warn = log_warning) -> BookEntry:
        """Read an entry of a character book."""
        raw = frozen(data)
        return ENTRY_FIELDS.make(cls, raw, where, warn, raw=raw)

    def to_json(self) -> JsonObject:
        """Write the entry; whatever was not changed is as it was read."""
        if self.pristine:
            return thaw_object(self.raw)
        return ENTRY_FIELDS.write(self, BookEntry.from_json(self.raw, warn=ignore), self.raw)

    def replace(self, **changes: Any) -> BookEntry:
        """Give a copy with some fields changed."""
        return dataclasses.replace(self, **changes)


@dataclass(frozen=True, slots=True, kw_only=True)
class CharacterBook:
    """A card's own lore book, or a stand-alone one (``lorebook_v3``)."""

    name: str | None = None
    description: str | None = None
    scan_depth: int | float | None = None
    token_budget: int | float | None = None
    recursive_scanning: bool | None = None
    extensions: FrozenObject = dataclasses.field(default_factory=empty_object)
    entries: tuple[BookEntry, ...] = ()
    raw: FrozenObject = dataclasses.field(default_factory=empty_object)
    pristine: bool = dataclasses.field(default=False, init=False, repr=False, compare=False)

    @classmethod
    def from_json(cls, data: Mapping[str, object], *, where: str = "", warn: Warn = log_warning) -> CharacterBook:
        """Read a character book, or the ``data`` of a stand-alone one."""
        if not is_mapping(data):
            raise LoreParseError(f"a character book is a JSON object, not {kind(data)}")
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
        """Write the book; whatever was not changed is as it was read."""
        if self.pristine:
            return thaw_object(self.raw)
        return BOOK_FIELDS.write(self, CharacterBook.from_json(self.raw, warn=ignore), self.raw)

    def replace(self, **changes: Any) -> CharacterBook:
        """Give a copy with some fields changed."""
        return dataclasses.replace(self, **changes)


def _read_entries(value: object, where: str, warn: Warn) -> tuple[BookEntry, ...]:
    items: list[tuple[str, object]]
    if is_sequence(value):
        items = [(str(index), item) for index, item in enumerate(value)]
    elif is_mapping(value):
        warn(f"{where} is an object where a list is expected; its values were taken in order")
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
    """Read a card's book field: nothing, or a book."""
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
