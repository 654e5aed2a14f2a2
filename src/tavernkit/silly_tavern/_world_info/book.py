"""World books in SillyTavern's own JSON."""

from __future__ import annotations

import gc
import json
import os
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import TypeGuard

from tavernkit._arguments import require
from tavernkit._text.js_values import own_keys
from tavernkit._values import Json, JsonObject, is_list, is_object, thaw
from tavernkit.cards._source import FileContent, read_file, stem
from tavernkit.errors import ConfigError, StrictModeError, Warn, log_warning
from tavernkit.silly_tavern._world_info.book_index import BadIndexError, IndexedBook, make_index
from tavernkit.silly_tavern._world_info.book_table import BookTable, make_table, read_columns
from tavernkit.silly_tavern._world_info.character_book import character_book_to_world, world_to_character_book
from tavernkit.silly_tavern._world_info.entry import Entry, problem_with
from tavernkit.silly_tavern._world_info.fields import check_depth
from tavernkit.silly_tavern._world_info.limits import MAX_BOOK_BYTES, MAX_WARNINGS_PER_BOOK
from tavernkit.silly_tavern.errors import LoreParseError, StrictLoreParseError

LARGE_FILE = 1_000_000
"""From how many bytes on the garbage collector takes a third of the time for reading a file."""

MANY_ENTRIES = 1_000
"""From how many entries on the same is true for a table."""

INDEX_SUFFIX = ".index"
"""The suffix of an index's file name."""

JSON_VALUE: object = Mapping[str, object] | Sequence[object] | str | float | bool | None
PARSED_FILE = "a parsed file, such as {'entries': {}}"


class WorldBook:
    """One world book. It is immutable: compiled data stays valid as long as the book exists.

    ``name`` is its identity, the name of its file without ``.json``. Everything in the file is kept, known or not, and
    written back.

    Args:
        name: The book's name.
        raw: The file's parsed JSON.
        file: Its file, if it has one.
    """

    def __init__(self, name: str, raw: Json, *, file: Path | None = None) -> None:
        self.name = name
        self._file = file
        self._raw = raw

    @classmethod
    def from_json(cls, data: object, *, name: str) -> WorldBook:
        """Read a parsed world file (a copy is made). Raises ``LoreParseError`` if it is nested too deeply.

        Args:
            data: The parsed file.
            name: What the book is called.
        """
        require("data", data, JSON_VALUE, PARSED_FILE)
        check_depth(data)
        return cls(name, thaw(data))

    @classmethod
    def loads(cls, text: str | bytes, *, name: str, warn: Warn = log_warning, strict: bool = False) -> WorldBook:
        """Read the text of a world file.

        An unreadable text gives an empty book and a warning, or ``LoreParseError`` in strict mode.

        Args:
            text: The content of the file.
            name: What the book is called.
            warn: Called with each warning.
            strict: Raise an error instead of warning.
        """
        return cls(name, _read_world(text, name, warn, strict=strict))

    @classmethod
    def load(
        cls,
        source: FileContent,
        *,
        index: FileContent | None = None,
        warn: Warn = log_warning,
        strict: bool = False,
    ) -> WorldBook:
        """Read a world file; the book is named after it.

        With an index, see ``index()``, only needed entries are parsed. An index that does not match the file, or is
        damaged, is reported and ignored.

        Args:
            source: The file.
            index: Its index; by default the one next to it, if there is one: ``lore.json.index``.
            warn: Called with each warning.
            strict: Raise ``LoreParseError`` instead.
        """
        content = read_file(source, MAX_BOOK_BYTES, limit="MAX_BOOK_BYTES")
        name, file = stem(source), None if isinstance(source, bytes) else Path(source)
        if index is None and file is not None:
            index = index_of(file)
        indexed = None if index is None else load_indexed(content, index, name, file, warn, strict=strict)
        return indexed if indexed is not None else cls(name, _read_world(content, name, warn, strict=strict), file=file)

    def index(self, path: str | os.PathLike[str] | None = None) -> Path:
        """Write an index of the book's file, which makes ``load()`` about three times as fast.

        It is valid only for the current content of the file; ``load()`` ignores it after changes.

        Args:
            path: Where to write it; by default next to the file, where ``load()`` looks for it.

        Returns:
            The path of the index.

        Raises:
            ConfigError: The book was not loaded from a file, the file has changed since, or it is another program's
                format.
            LoreParseError: The file can no longer be read.
        """
        from tavernkit.silly_tavern._world_info.importers import convert_foreign_world  # it imports this module

        if self._file is None:
            raise ConfigError("only a book that was loaded from a file can have an index", code="NO_FILE")
        content = read_file(self._file, MAX_BOOK_BYTES, limit="MAX_BOOK_BYTES")
        raw = parse_world(content)
        if raw != self._raw:
            raise ConfigError(
                f"{str(self._file)!r} has changed since it was loaded: load it again", code="FILE_CHANGED"
            )
        if not is_object(raw.get("entries")) or convert_foreign_world(raw) is not None:
            raise ConfigError("only SillyTavern's own world files can have an index", code="FOREIGN_FILE")
        book = WorldBook(self.name, raw)
        entries = [*book.raw_entries()]
        usable = [number for number, (_, each) in enumerate(entries) if problem_with(each) is None]
        target = Path(f"{self._file}{INDEX_SUFFIX}" if path is None else path)
        part = target.with_name(f"{target.name}.part")
        part.write_bytes(make_index(content, [key for key, _ in entries], usable, book.table))
        part.replace(target)
        return target

    @classmethod
    def from_character_book(cls, book: object, *, name: str) -> WorldBook:
        """Convert the ``character_book`` of a V2 or V3 card. Raises ``LoreParseError`` if nested too deeply.

        Args:
            book: The JSON of the book.
            name: What the book is called.
        """
        check_depth(book)
        return cls(name, character_book_to_world(book))

    def to_character_book(self) -> JsonObject:
        """Convert to the ``character_book`` of a card, as SillyTavern does when a card linked to a book is saved."""
        return world_to_character_book(self.name, self._raw)

    def to_json(self) -> Json:
        """Return the whole file as it was read."""
        return thaw(self._raw)

    def dumps(self, *, indent: int | None = 4) -> str:
        """Write the file."""
        return json.dumps(self._raw, ensure_ascii=False, indent=indent)

    def raw_entries(self) -> Iterator[tuple[str, Json]]:
        """Return the entries as JSON with their map keys, in JavaScript's order. Read-only."""
        entries = self._raw.get("entries") if is_object(self._raw) else None
        if is_object(entries):
            for key in own_keys(entries):
                yield key, entries[key]
        elif is_list(entries):
            for index, entry in enumerate(entries):
                yield str(index), entry

    def _has_entries(self) -> bool:
        if not is_object(self._raw):
            return False
        entries = self._raw.get("entries")
        return not self._raw or is_object(entries) or is_list(entries)

    def usable_entries(self, warn: Warn | None = None) -> Iterator[JsonObject]:
        """Return the entries that a scan can use; invalid ones are reported and left out."""
        if warn is not None and not self._has_entries():
            tell_problem(
                warn, f'world book {self.name!r} is treated as empty: it has no object or list under "entries"'
            )
        bad = 0
        for key, raw in self.raw_entries():
            problem = problem_with(raw)
            if problem is None and is_object(raw):
                yield raw
                continue
            bad += 1
            if warn is not None and bad <= MAX_WARNINGS_PER_BOOK:
                tell_problem(warn, f"world book {self.name!r}: entry {key!r} is left out: {problem}")
        if warn is not None and bad > MAX_WARNINGS_PER_BOOK:
            warn(f"world book {self.name!r}: {bad} bad entries are left out in all")

    @cached_property
    def table(self) -> BookTable:
        """Return the columns of all entries for scans. Read-only."""
        entries = self._raw.get("entries") if is_object(self._raw) else None
        if is_object(entries):
            raws = [*map(entries.__getitem__, own_keys(entries))]
        else:
            raws = [*entries] if is_list(entries) else []
        with _paused_collector(len(raws) >= MANY_ENTRIES):
            if raws and _are_objects(raws) and (columns := read_columns(raws)).usable:
                with suppress(TypeError):
                    return make_table(raws, columns)
            problems: list[str] = []
            usable = [*self.usable_entries(problems.append)]
            return make_table(usable, read_columns(usable), problems)

    def __getstate__(self) -> dict[str, object]:
        """A pickle contains the file, not compiled data."""
        return {"name": self.name, "_raw": self._raw, "_file": self._file}

    @cached_property
    def entries(self) -> tuple[Entry, ...]:
        """The usable entries, in JavaScript's order."""
        return tuple(Entry(raw, self.name) for raw in self.usable_entries())

    def __len__(self) -> int:
        return sum(1 for _ in self.raw_entries())

    def __repr__(self) -> str:
        return f"WorldBook({self.name!r}, {len(self)} entries)"


def index_of(file: Path) -> Path | None:
    """Return the index next to a world file, if there is one."""
    index = Path(f"{file}{INDEX_SUFFIX}")
    return index if index.is_file() else None


def _are_objects(raws: list[Json]) -> TypeGuard[list[JsonObject]]:
    return {*map(type, raws)} == {dict}


class _IndexedWorldBook(WorldBook):
    """A book whose entries are parsed on demand."""

    def __init__(self, name: str, indexed: IndexedBook, file: Path | None) -> None:
        self.name = name
        self._file = file
        self._indexed = indexed

    @cached_property
    def _raw(self) -> Json:  # pyright: ignore[reportIncompatibleVariableOverride]  # an attribute, made late
        return parse_world(self._indexed.content)

    @cached_property
    def table(self) -> BookTable:
        return self._indexed.table

    def raw_entries(self) -> Iterator[tuple[str, Json]]:
        return self._indexed.raw_entries()

    def __len__(self) -> int:
        return len(self._indexed)

    def __reduce__(self) -> tuple[object, ...]:
        return WorldBook, (self.name, self._raw)


def load_indexed(
    content: bytes, index: FileContent, name: str, file: Path | None, warn: Warn, *, strict: bool = False
) -> WorldBook | None:
    """Read a book with its index, or report why the index cannot be used."""
    try:
        indexed = IndexedBook(content, read_file(index, MAX_BOOK_BYTES, limit="MAX_BOOK_BYTES"))
    except BadIndexError as error:
        message = f"the index of world book {name!r} is not used: {error}; write it again"
        if strict:
            raise StrictLoreParseError(message) from None
        tell_problem(warn, message)
        return None
    return _IndexedWorldBook(name, indexed, file)


def _read_world(text: str | bytes, name: str, warn: Warn, *, strict: bool) -> JsonObject:
    try:
        return parse_world(text)
    except LoreParseError as error:
        if strict:
            raise
        warn(f"world book {name!r} is treated as empty: {error}")
        return {"entries": {}}


def tell_problem(warn: Warn, message: str) -> None:
    """Report a problem; raises ``StrictLoreParseError`` in strict mode."""
    try:
        warn(message)
    except StrictModeError as error:
        raise StrictLoreParseError(message) from error


def parse_world(text: str | bytes) -> JsonObject:
    """Parse a world file; it must be an object with ``entries``. Raises ``LoreParseError``."""
    parsed = parse_json(text)
    if not is_object(parsed) or "entries" not in parsed:
        raise LoreParseError('a world file is a JSON object with the key "entries"')
    return parsed


def parse_json(text: str | bytes) -> Json:
    """Parse JSON within the limits; raises ``LoreParseError``."""
    if len(text) > MAX_BOOK_BYTES:
        raise LoreParseError(f"the file is larger than {MAX_BOOK_BYTES} bytes")
    try:
        with _paused_collector(len(text) >= LARGE_FILE):
            parsed: Json = json.loads(text if isinstance(text, str) else text.decode("utf-8"))
    except RecursionError:
        raise LoreParseError("the JSON is nested too deeply") from None
    except ValueError as error:
        raise LoreParseError(f"the file is not JSON: {error}") from None
    check_depth(parsed)
    return parsed


@contextmanager
def _paused_collector(large: bool) -> Generator[None, None, None]:
    """Pause the garbage collector while a large book is read, because it would repeatedly visit all objects.

    Freezing and unfreezing moves the new objects to the oldest generation, which is rarely collected.
    """
    if not large or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        if not gc.get_freeze_count():  # objects that the application froze stay frozen
            gc.freeze()
            gc.unfreeze()
        gc.enable()
