"""The World Info engine: compiles books once and scans with them."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from operator import itemgetter

from tavernkit._text.js_values import to_number
from tavernkit._values import Json, LRUCache
from tavernkit.silly_tavern._world_info.book import tell_problem
from tavernkit.silly_tavern._world_info.entry import Entry, entry_hash
from tavernkit.silly_tavern._world_info.key_table import KeyTable
from tavernkit.silly_tavern._world_info.limits import COMPILED_BOOKS, MAX_LEVELS
from tavernkit.silly_tavern._world_info.result import WorldInfoResult
from tavernkit.silly_tavern._world_info.scan import Scan
from tavernkit.silly_tavern._world_info.scan_input import ScanInput
from tavernkit.silly_tavern._world_info.selection import ListedEntries, SelectedBooks, WorldInfoSettings


class CompiledBooks:
    """The entries of a scan in order, with everything that can be computed before a text is seen.

    It is valid for one selection of books and one insertion strategy, can be shared between threads, and is never
    changed by a scan. ``problems`` lists unreadable parts of the books, ``warnings`` other warnings.
    """

    def __init__(self, books: SelectedBooks, strategy: float) -> None:
        listed = self.listed = ListedEntries(books, strategy)
        self.problems: tuple[str, ...] = tuple(listed.problems)
        self.warnings: tuple[str, ...] = ()
        self._entries: dict[int, Entry] = {}
        self._hashes: dict[int, int] = {}
        self._tables: dict[tuple[bool, bool], KeyTable] = {}
        self._places: _Places | None = None
        self._lock = threading.Lock()
        tables = [(book.table, positions) for book, positions in zip(listed.books, listed.positions, strict=True)]
        self.unconditional: tuple[int, ...] = tuple(at[number] for table, at in tables for number in table.constant)
        self.timed: tuple[int, ...] = tuple(sorted(at[number] for table, at in tables for number in table.timed))
        levels: dict[object, Json] = {}
        for _, level in sorted(
            ((at[number], level) for table, at in tables for number, level in table.delayed), key=itemgetter(0)
        ):
            levels.setdefault(level if isinstance(level, (int, float, str)) else repr(level), level)
        self.levels: tuple[Json, ...] = tuple(sorted(levels.values(), key=_level_order)[:MAX_LEVELS])
        if len(levels) > MAX_LEVELS:
            self.warnings = (f"World Info has {len(levels)} levels of recursion; only {MAX_LEVELS} are scanned",)
        self.deepest = int(max((table.deepest for table, _ in tables), default=0))

    def __len__(self) -> int:
        return len(self.listed)

    def entry(self, position: int) -> Entry:
        """Return the entry at an index of the list."""
        entry = self._entries.get(position)
        if entry is None:
            raw, world = self.listed[position]
            # Two threads may both make it; both get the one that was stored first.
            entry = self._entries.setdefault(position, Entry(raw, world))
        return entry

    def hash(self, position: int) -> int:
        """Return the hash of the entry at an index of the list."""
        known = self._hashes.get(position)
        if known is None:
            known = self._hashes[position] = entry_hash(self.entry(position))
        return known

    def table(self, *, case_sensitive: bool, whole_words: bool) -> KeyTable:
        """Return the compiled keys for a pair of global settings."""
        with self._lock:
            table = self._tables.get((case_sensitive, whole_words))
            if table is None:
                table = KeyTable(self.listed, case_sensitive=case_sensitive, whole_words=whole_words)
                self._tables[case_sensitive, whole_words] = table
            return table

    def positions(self, identity: str) -> Sequence[int]:
        """Return the indexes of the entries with the id ``book.uid``: more than one if a book is listed twice."""
        return self._all_places().by_identity.get(identity, ())

    def positions_of_uid(self, uid: str) -> Sequence[int]:
        """Return the indexes of the entries with a uid, in any book."""
        return self._all_places().by_uid.get(uid, ())

    def _all_places(self) -> _Places:
        with self._lock:
            if self._places is None:
                self._places = _Places(self.listed)
            return self._places


class _Places:
    """An index of entries by name, made on demand, because most scans do not need it."""

    __slots__ = ("by_identity", "by_uid")

    def __init__(self, listed: ListedEntries) -> None:
        self.by_identity: dict[str, list[int]] = {}
        self.by_uid: dict[str, list[int]] = {}
        for position, (world, uid) in enumerate(listed.identities()):
            self.by_identity.setdefault(f"{world}.{uid}", []).append(position)
            self.by_uid.setdefault(uid, []).append(position)


def _level_order(value: Json) -> float:
    number = to_number(value)
    return math.inf if math.isnan(number) else number


class WorldInfoEngine:
    """Decides which entries of some books a chat activates, as SillyTavern does.

    Books are compiled the first time they are scanned and kept for later scans, so that the cost of a scan depends on
    the text and its matches, not on the size of the books. One engine can be shared between threads.

    >>> from tavernkit.silly_tavern import ScanInput, SelectedBooks, WorldBook
    >>> book = WorldBook.from_json({"entries": {"0": {"uid": 0, "key": ["lamp"], "content": "It is old"}}}, name="lore")
    >>> books = SelectedBooks(global_=(book,))
    >>> given = ScanInput(messages=["Light the lamp!"], books=books, max_context=4096, count_tokens=len)
    >>> print(WorldInfoEngine().scan(given).explain(0))
    lore.0: in, key 'lamp' found in the last message: …Light the lamp!…
    """

    def __init__(self, *, cache_size: int = COMPILED_BOOKS) -> None:
        self._compiled: LRUCache[tuple[SelectedBooks, float], CompiledBooks] = LRUCache(cache_size)

    def compile(self, books: SelectedBooks, settings: WorldInfoSettings) -> CompiledBooks:
        """Compile books before many scans; without this, the first scan compiles only what it needs.

        Args:
            books: The books.
            settings: The settings of the scans.
        """
        compiled = self._books(books, settings)
        compiled.table(case_sensitive=settings.case_sensitive, whole_words=settings.match_whole_words).complete()
        return compiled

    def _books(self, books: SelectedBooks, settings: WorldInfoSettings) -> CompiledBooks:
        strategy = settings.character_strategy
        return self._compiled.get_or_make((books, strategy), lambda: CompiledBooks(books, strategy))

    def scan(self, scan_input: ScanInput) -> WorldInfoResult:
        """Scan a chat."""
        compiled = self._books(scan_input.books, scan_input.settings)
        for problem in compiled.problems:
            tell_problem(scan_input.warn, problem)
        for warning in compiled.warnings:
            scan_input.warn(warning)
        return WorldInfoResult.of(Scan(compiled, scan_input).run())
