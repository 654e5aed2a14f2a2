"""Lorebooks: one that a build gets from the application, those of other programs, old ones, RisuAI's own export file.

A card's own book is converted by ``tavernkit.cards._risu_ai.convert_character_book()``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from tavernkit._dataclass import dataclass
from tavernkit._text.js_values import join, to_string, truthy
from tavernkit._text.js_values.convert import own_keys
from tavernkit._values import FrozenObject, Json, JsonObject, freeze_object, is_mapping, is_sequence, thaw, thaw_object
from tavernkit.cards._book import CharacterBook
from tavernkit.cards._json_text import parse_json
from tavernkit.cards._limits import DEFAULT_LIMITS
from tavernkit.cards._risu_ai.character import lorebook_from_book
from tavernkit.cards._source import FileContent, read_file, stem
from tavernkit.errors import LoreParseError, Warn, log_warning, refuse_warning

FILE_TYPE = "risu"
FILE_VERSION = 1
BOOK_VERSION = 2
_END = re.compile(r"@@@?end")
_CHAR = re.compile(r"<(?:char|bot)>")


def import_lorebook(value: object, *, warn: Warn | None = None) -> list[JsonObject]:
    """Read a lorebook file: RisuAI's export, or anything that has ``entries``.

    Args:
        value: The file's parsed JSON.
        warn: Called with each warning.

    Raises:
        LoreParseError: The file is not a lorebook.
    """
    data = value.get("data") if is_mapping(value) and value.get("type") == FILE_TYPE else None
    if is_sequence(data):
        return [thaw_object(entry) for entry in _objects(data, warn)]
    if is_mapping(value) and value.get("entries") is not None:
        return convert_entries(value["entries"], warn=warn)
    raise LoreParseError("this is not a lorebook: it has neither RisuAI's type and data nor entries")


def export_lorebook(entries: Sequence[Mapping[str, object]]) -> JsonObject:
    """Write entries as RisuAI's export file."""
    return {"type": FILE_TYPE, "ver": FILE_VERSION, "data": [thaw_object(entry) for entry in entries]}


def convert_entries(entries: object, *, warn: Warn | None = None) -> list[JsonObject]:
    """Convert the entries of another program (a list, or an object in JavaScript's key order) to RisuAI's."""
    if is_mapping(entries):
        items: Sequence[object] = [entries[key] for key in own_keys(entries)]
    else:
        items = entries if is_sequence(entries) else ()
        if not is_sequence(entries) and warn is not None:
            warn(f"the lorebook's entries are left out: they must be a list or an object, not {type(entries).__name__}")
    return [_convert(item) for item in _objects(items, warn)]


def _objects(items: Sequence[object], warn: Warn | None) -> Iterator[Mapping[str, object]]:
    for number, item in enumerate(items):
        if is_mapping(item):
            yield item
        elif warn is not None:
            warn(f"lorebook entry {number} is left out: it must be an object, not {type(item).__name__}")


def _convert(entry: Mapping[str, object]) -> JsonObject:
    config = entry.get("contextConfig")
    priority = config.get("budgetPriority") if is_mapping(config) else None
    return {
        # SillyTavern's `keysecondary`, `disable`, positions and probabilities are not read, as in RisuAI.
        "key": join(_first_list(entry, "key", "keys", "keywords"), ", "),
        "insertorder": _first(entry.get("order"), entry.get("priority"), priority, 0),
        "comment": _first_text(entry, "comment", "name", "displayName"),
        "content": _first_text(entry, "content", "entry", "text"),
        "mode": "normal",
        "alwaysActive": _first(entry.get("constant"), entry.get("forceActivation"), False),
        "secondkey": join(_first_list(entry, "secondary_keys"), ", "),
        "selective": _first(entry.get("selective"), False),
    }


def migrate_entries(entries: Sequence[Mapping[str, object]]) -> list[JsonObject]:
    """Migrate entries of an old database, as RisuAI does when it loads them."""
    return [_migrated(thaw_object(entry)) for entry in entries]


def _migrated(entry: JsonObject) -> JsonObject:
    version = entry.get("bookVersion")
    if isinstance(version, (int, float)) and version >= BOOK_VERSION:
        return entry
    content = to_string(entry.get("content") or "")
    if truthy(entry.get("activationPercent")):
        content = f"@@probability {to_string(entry['activationPercent'])}\n{content}"
        entry["activationPercent"] = None
    content = _END.sub("@@depth 0", content)  # anywhere in the text, not only in decorators
    entry["content"] = _CHAR.sub("{{char}}", content).replace("<user>", "{{user}}")
    entry["bookVersion"] = BOOK_VERSION
    return entry


def _first(*values: object) -> Json:
    return thaw(next((value for value in values if value is not None), None))


def _first_text(entry: Mapping[str, object], *names: str) -> Json:
    return thaw(next((entry[name] for name in names if truthy(entry.get(name))), ""))


def _first_list(entry: Mapping[str, object], *names: str) -> Sequence[object]:
    for name in names:
        found = entry.get(name)
        if is_sequence(found):  # an empty list hides the names after it
            return found
    return ()


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
