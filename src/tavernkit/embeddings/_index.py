"""An index of vectors in SQLite, searched exactly.

Comparing a hundred thousand vectors number by number takes Python seconds. A collection that was searched is kept in
memory: as a matrix if NumPy is installed, else as columns of small whole numbers. The scores of both are slightly
inexact, but the maximum error is known: every item that may be among the best is compared again exactly.
"""

from __future__ import annotations

import heapq
import logging
import math
import os
import sqlite3
import threading
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import mul
from typing import Protocol
from weakref import finalize

from tavernkit.embeddings._search import MAX_DIMENSIONS, Bound, Columns, Matrix, encode, numpy
from tavernkit.errors import ConfigError

logger = logging.getLogger("tavernkit")

COMPARED_AT_ONCE = 64
"""Items that are read from the database in one query."""
NUMPY_HELPS_FROM = 20_000_000
"""From how many numbers in a collection on NumPy makes a search noticeably faster."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS vectors (
  id INTEGER PRIMARY KEY,
  collection TEXT NOT NULL,
  key TEXT NOT NULL,
  place INTEGER NOT NULL,
  text TEXT NOT NULL,
  vector BLOB NOT NULL,
  codes BLOB NOT NULL,
  error REAL NOT NULL,
  UNIQUE (collection, key, place)
)
"""
_INSERT = """
INSERT OR REPLACE INTO vectors (collection, key, place, text, vector, codes, error) VALUES (?, ?, ?, ?, ?, ?, ?)
"""


@dataclass(frozen=True, slots=True)
class IndexItem:
    """A text to index. Items of one ``key`` are chunks of the same text, in the order of ``place``."""

    text: str
    """The text."""
    key: str
    place: int = 0


@dataclass(frozen=True, slots=True)
class Match:
    """An item that a search found, with the cosine similarity between its vector and the query."""

    collection: str
    """The collection that the item is in."""
    text: str
    """The text of the item."""
    key: str
    """The key of the text that the item is a chunk of."""
    place: int
    """The chunk's number in that text."""
    score: float
    """The cosine: 1 for the same direction, 0 for texts that have nothing in common."""


class _Searchable(Protocol):
    """Items of a collection whose vectors have the same length."""

    @property
    def ids(self) -> Sequence[int]: ...

    def bounds(self, wanted: array[float], top_k: int) -> Sequence[Bound]:
        """Return all items that may be among the best, by the highest score that each may have, best first."""
        ...


class VectorIndex:
    """Texts and their vectors by collection. It can be shared between threads."""

    def __init__(self, path: str | os.PathLike[str] = ":memory:") -> None:
        self._lock = threading.Lock()
        self._connection = sqlite3.connect(path, check_same_thread=False)
        finalize(self, self._connection.close)
        with self._connection:
            self._connection.execute(_SCHEMA)
            if self._connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'items'").fetchone():
                self._move_items()
        self._numpy = numpy()
        self._loaded: dict[str, dict[int, _Searchable]] = {}

    def _move_items(self) -> None:
        """Migrate the table of version 0.1."""
        rows = self._connection.execute("SELECT collection, key, place, text, vector FROM items ORDER BY id")
        for *item, stored in rows.fetchall():
            self._connection.execute(_INSERT, (*item, *_stored(_numbers(stored))))
        self._connection.execute("DROP TABLE items")

    def close(self) -> None:
        """Close the database."""
        self._connection.close()

    def keys(self, collection: str) -> frozenset[str]:
        """Return the keys that a collection has."""
        with self._lock:
            query = "SELECT DISTINCT key FROM vectors WHERE collection = ?"
            return frozenset(_text(key) for (key,) in self._connection.execute(query, (_bound(collection),)))

    def add(self, collection: str, items: Sequence[IndexItem], vectors: Sequence[Sequence[float]]) -> None:
        """Add items; existing ones are replaced.

        Args:
            collection: Where the items belong.
            items: The items.
            vectors: A vector for each of them.

        Raises:
            ConfigError: There are more or fewer vectors than items, or a vector is too long.
        """
        if len(items) != len(vectors):
            raise ConfigError(f"{len(items)} items need as many vectors, not {len(vectors)}")
        longest = max(map(len, vectors), default=0)
        if longest > MAX_DIMENSIONS:
            raise ConfigError(f"a vector has at most {MAX_DIMENSIONS} numbers, not {longest}")
        rows = [
            (
                _bound(collection),
                _bound(item.key),
                item.place,
                _bound(item.text),
                *_stored(array("f", _normalized(vector))),
            )
            for item, vector in zip(items, vectors, strict=True)
        ]
        with self._lock, self._connection:
            self._connection.executemany(_INSERT, rows)
            self._loaded.pop(collection, None)

    def remove(self, collection: str, keys: str | Iterable[str] | None = None) -> None:
        """Remove a collection, or only some of its keys.

        Args:
            collection: The collection.
            keys: The key or keys to remove; all by default.
        """
        with self._lock, self._connection:
            if keys is None:
                self._connection.execute("DELETE FROM vectors WHERE collection = ?", (_bound(collection),))
            else:
                rows = [(_bound(collection), _bound(key)) for key in _several(keys)]
                self._connection.executemany("DELETE FROM vectors WHERE collection = ? AND key = ?", rows)
            self._loaded.pop(collection, None)

    def search(
        self, collections: str | Iterable[str], vector: Sequence[float], *, top_k: int, threshold: float = 0.0
    ) -> list[Match]:
        """Return the nearest items of some collections, best first.

        Args:
            collections: The collection or collections to look in.
            vector: What to look for.
            top_k: How many items to return at most.
            threshold: Items with a lower score are left out.
        """
        if top_k <= 0:
            return []
        wanted = array("f", _normalized(vector))
        with self._lock:
            found = [
                match for each in dict.fromkeys(_several(collections)) for match in self._nearest(each, wanted, top_k)
            ]
        near = (match for match in found if match.score >= threshold)
        return heapq.nlargest(top_k, near, key=lambda match: match.score)

    def _nearest(self, collection: str, wanted: array[float], top_k: int) -> list[Match]:
        """Return all items of a collection that may be among its ``top_k`` best, with exact scores."""
        items = self._searchable(collection).get(len(wanted))
        if items is None:
            return []
        bounds = items.bounds(wanted, top_k) if len(items.ids) > top_k else [(math.inf, each) for each in items.ids]
        query = list(wanted)
        scores: dict[int, float] = {}
        least: list[float] = []
        for start in range(0, len(bounds), COMPARED_AT_ONCE):
            asked = bounds[start : start + COMPARED_AT_ONCE]
            if len(least) == top_k and asked[0][0] < least[-1]:
                break  # nothing that follows can be among the best
            for item_id, stored in self._select("id, vector", [item_id for _, item_id in asked]):
                scores[item_id] = sum(map(mul, _numbers(stored), query))
            least = heapq.nlargest(top_k, scores.values())
        near = sorted(item_id for item_id, score in scores.items() if score >= least[-1])
        return [
            Match(collection, _text(text), _text(key), place, scores[item_id])
            for start in range(0, len(near), COMPARED_AT_ONCE)
            for item_id, text, key, place in self._select(
                "id, text, key, place", near[start : start + COMPARED_AT_ONCE]
            )
        ]

    def _select(self, columns: str, ids: Sequence[int]) -> sqlite3.Cursor:
        marks = ",".join("?" * len(ids))
        query = f"SELECT {columns} FROM vectors WHERE id IN ({marks}) ORDER BY id"  # noqa: S608  # our own names
        return self._connection.execute(query, ids)

    def _searchable(self, collection: str) -> dict[int, _Searchable]:
        """Return the items of a collection by the length of their vectors."""
        loaded = self._loaded.get(collection)
        if loaded is None:
            rows: dict[int, list[tuple[int, bytes, float]]] = {}
            column = "codes" if self._numpy is None else "vector"
            query = f"SELECT id, {column}, error FROM vectors WHERE collection = ? ORDER BY id"  # noqa: S608  # one of two names
            for row in self._connection.execute(query, (_bound(collection),)):
                rows.setdefault(len(row[1]), []).append(row)
            loaded = self._loaded[collection] = dict(self._made(size, items) for size, items in rows.items())
        return loaded

    def _made(self, size: int, items: Sequence[tuple[int, bytes, float]]) -> tuple[int, _Searchable]:
        if self._numpy is not None:
            length = size // array("f").itemsize
            return length, Matrix(self._numpy, [item[0] for item in items], b"".join(item[1] for item in items), length)
        if size * len(items) >= NUMPY_HELPS_FROM:
            _hint(len(items))
        return size, Columns(size, items)


_hinted = threading.Event()
"""Set when the hint was given: once is enough."""


def _hint(count: int) -> None:
    if not _hinted.is_set():
        _hinted.set()
        logger.warning(
            "searching %s vectors is several times as fast with NumPy: pip install 'tavernkit[numpy]'", count
        )


def _several(names: str | Iterable[str]) -> Iterable[str]:
    return (names,) if isinstance(names, str) else names


def _bound(text: str) -> str | bytes:
    """Return a text as SQLite takes it: one with half a character is stored as bytes."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")
    return text


def _text(stored: str | bytes) -> str:
    return stored if isinstance(stored, str) else stored.decode("utf-8", "surrogatepass")


def _stored(vector: array[float]) -> tuple[bytes, bytes, float]:
    """Return a vector of length one as it is stored, with its codes and their distance from it."""
    return vector.tobytes(), *encode(vector)


def _numbers(stored: bytes) -> array[float]:
    vector = array("f")
    vector.frombytes(stored)
    return vector


def _normalized(vector: Sequence[float]) -> list[float]:
    length = math.hypot(*vector)
    return [number / length for number in vector] if length and math.isfinite(length) else [0.0] * len(vector)
