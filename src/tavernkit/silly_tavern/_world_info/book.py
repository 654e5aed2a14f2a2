"""World books in SillyTavern's own JSON."""

from __future__ import annotations

import gc
import json
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TypeGuard

from tavernkit._arguments import checked, require
from tavernkit._text.js_values import own_keys
from tavernkit._values import Json, JsonObject, is_list, is_object, thaw
from tavernkit.cards._source import FileContent, read_file, stem
from tavernkit.errors import StrictModeError, Warn, log_warning
from tavernkit.silly_tavern._world_info.book_table import BookTable, make_table, read_columns
from tavernkit.silly_tavern._world_info.character_book import character_book_to_world, world_to_character_book
from tavernkit.silly_tavern._world_info.entry import Entry, problem_with
from tavernkit.silly_tavern._world_info.fields import check_depth
from tavernkit.silly_tavern._world_info.limits import MAX_BOOK_BYTES, MAX_WARNINGS_PER_BOOK
from tavernkit.silly_tavern.errors import LoreParseError, StrictLoreParseError

LARGE_FILE = 1_000_000
"""From how many bytes on a file makes so many objects that the garbage collector costs a third of reading it."""

MANY_ENTRIES = 1_000
"""From how many entries on the same is true of a table."""

JSON_VALUE: object = Mapping[str, object] | Sequence[object] | str | float | bool | None
PARSED_FILE = "a parsed file, such as {'entries': {}}"


class WorldBook:
    """One world book. It does not change: what was compiled for it stays valid as long as the book lives.

    ``name`` is its identity, the name of its file without ``.json``. Everything the file holds is kept, known or not,
    and written back.

    Args:
        name: The book's name.
        raw: The file's parsed JSON.
    """

    def __init__(self, name: str, raw: Json) -> None:
        self.name = name
        self._raw = raw

    @classmethod
    def from_json(cls, data: object, *, name: str) -> WorldBook:
        """Take a parsed world file (a copy is made). Raises ``LoreParseError`` if it is nested too deeply."""
        require("data", data, JSON_VALUE, PARSED_FILE)
        check_depth(data)
        return cls(name, thaw(data))

    @classmethod
    def loads(cls, text: str | bytes, *, name: str, warn: Warn = log_warning, strict: bool = False) -> WorldBook:
        """Read the text of a world file.

        What cannot be read gives an empty book and a warning, or ``LoreParseError`` in strict mode.
        """
        try:
            return cls(name, parse_world(text))
        except LoreParseError as error:
            if strict:
                raise
            warn(f"world book {name!r} is taken as empty: {error}")
            return cls(name, {"entries": {}})

    @classmethod
    @checked
    def load(cls, source: FileContent, *, warn: Warn = log_warning, strict: bool = False) -> WorldBook:
        """Read a world file; the book is named after it."""
        content = read_file(source, MAX_BOOK_BYTES, limit="MAX_BOOK_BYTES")
        return cls.loads(content, name=stem(source), warn=warn, strict=strict)

    @classmethod
    def from_character_book(cls, book: object, *, name: str) -> WorldBook:
        """Convert the ``character_book`` of a V2 or V3 card. Raises ``LoreParseError`` if nested too deeply."""
        check_depth(book)
        return cls(name, character_book_to_world(book))

    def to_character_book(self) -> JsonObject:
        """Convert to the ``character_book`` of a card, as SillyTavern does when a card linked to a book is saved."""
        return world_to_character_book(self.name, self._raw)

    def to_json(self) -> Json:
        """The whole file as it was read."""
        return thaw(self._raw)

    def dumps(self, *, indent: int | None = 4) -> str:
        """Write the file."""
        return json.dumps(self._raw, ensure_ascii=False, indent=indent)

    def raw_entries(self) -> Iterator[tuple[str, Json]]:
        """The entries as JSON with their map keys, in the order in which JavaScript lists them. Read only."""
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
        """The entries that a scan can use; a bad one is named in a warning and left out."""
        if warn is not None and not self._has_entries():
            tell_problem(warn, f'world book {self.name!r} is taken as empty: it has no object or list under "entries"')
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
        """What a scan has to know of all entries. Read only."""
        raws = [raw for _, raw in self.raw_entries()]
        with _paused_collector(len(raws) >= MANY_ENTRIES):
            if raws and _are_objects(raws) and (columns := read_columns(raws)).usable:
                return make_table(raws, columns)
            problems: list[str] = []
            usable = [*self.usable_entries(problems.append)]
            return make_table(usable, read_columns(usable), problems)

    def __getstate__(self) -> dict[str, object]:
        """A pickle has the file, not what was made of it."""
        return {"name": self.name, "_raw": self._raw}

    @cached_property
    def entries(self) -> tuple[Entry, ...]:
        """The usable entries, in the order in which JavaScript lists them."""
        return tuple(Entry(raw, self.name) for raw in self.usable_entries())

    def __len__(self) -> int:
        return sum(1 for _ in self.raw_entries())

    def __repr__(self) -> str:
        return f"WorldBook({self.name!r}, {len(self)} entries)"


def _are_objects(raws: list[Json]) -> TypeGuard[list[JsonObject]]:
    return {*map(type, raws)} == {dict}


def tell_problem(warn: Warn, message: str) -> None:
    """Report what cannot be read; raises ``StrictLoreParseError`` in strict mode."""
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
    """Pause the garbage collector while a large book is read: it would walk what is there again and again.

    What was made is old at once: freezing and unfreezing moves it past the collections that look at new objects only.
    """
    if not large or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        if not gc.get_freeze_count():  # what the application froze stays frozen
            gc.freeze()
            gc.unfreeze()
        gc.enable()
