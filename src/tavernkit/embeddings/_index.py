"""An index of vectors in SQLite, searched exactly.

Comparing a hundred thousand vectors number by number takes Python seconds. If NumPy is installed, a collection that was
searched is kept in memory as a matrix. Without it, collections are kept in blocks of columns of small whole numbers,
one column for each dimension and all items of the block in one large integer; multiplying a column by a number of the
query vector scores all of its items at once. Both kinds of scores are slightly inexact, but the maximum error is known:
every item that may be among the best is compared again exactly.
"""

from __future__ import annotations

import heapq
import math
import os
import sqlite3
import sys
import threading
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import mul
from typing import Final, Protocol

from tavernkit.embeddings._matrix import Matrix, numpy
from tavernkit.errors import ConfigError

CODE_LIMIT, QUERY_LIMIT = 127, 2047
"""The largest integers in the codes of stored vectors and of the query vector."""
SLOT_BYTES = 4
"""Bits for an item's score in a column."""
MAX_DIMENSIONS = (1 << (8 * SLOT_BYTES - 1)) // (CODE_LIMIT * QUERY_LIMIT)
"""Scores of longer vectors could overflow."""
BLOCK_ITEMS = 8000
"""Items per block: small enough for the processor's cache and for memory that is already allocated."""
ASKED_AT_ONCE = 500
"""Items that are read from the database in one query."""

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


@dataclass(frozen=True, slots=True)
class _Block:
    """Some items of a collection, ready to be scored; ``error`` is the maximum distance of a vector from its codes."""

    ids: Sequence[int]
    columns: Sequence[int]
    error: float

    def scores(self, query: Sequence[int]) -> array[int]:
        """Return the score of each item, above the middle of its slot if it is positive."""
        total = 0
        for column, number in zip(self.columns, query, strict=True):
            if number:
                total += column * number
        count = len(self.ids)
        found = array("I")
        found.frombytes((total + _everywhere(_MIDDLE, count)).to_bytes(SLOT_BYTES * count, "little"))
        if sys.byteorder == "big":
            found.byteswap()
        return found


class _Searchable(Protocol):
    """Items of a collection whose vectors have the same length."""

    @property
    def ids(self) -> Sequence[int]: ...

    def candidates(self, wanted: array[float], top_k: int) -> Sequence[int]:
        """Return the ids of all items that may be among the best, judged by slightly inexact scores."""
        ...


@dataclass(frozen=True, slots=True)
class _Columns:
    """Items as blocks of columns."""

    ids: Sequence[int]
    blocks: Sequence[_Block]

    def candidates(self, wanted: array[float], top_k: int) -> list[int]:
        return _candidates(self.blocks, wanted, top_k)


class VectorIndex:
    """Texts and their vectors by collection. It can be shared between threads."""

    def __init__(self, path: str | os.PathLike[str] = ":memory:") -> None:
        self._lock = threading.Lock()
        self._connection = sqlite3.connect(path, check_same_thread=False)
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
            rows = self._connection.execute("SELECT DISTINCT key FROM vectors WHERE collection = ?", (collection,))
            return frozenset(str(key) for (key,) in rows)

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
            (collection, item.key, item.place, item.text, *_stored(array("f", _normalized(vector))))
            for item, vector in zip(items, vectors, strict=True)
        ]
        with self._lock, self._connection:
            self._connection.executemany(_INSERT, rows)
            self._loaded.pop(collection, None)

    def remove(self, collection: str, keys: Iterable[str] | None = None) -> None:
        """Remove a collection, or only some of its keys.

        Args:
            collection: The collection.
            keys: The keys to remove; all by default.
        """
        with self._lock, self._connection:
            if keys is None:
                self._connection.execute("DELETE FROM vectors WHERE collection = ?", (collection,))
            else:
                rows = [(collection, key) for key in keys]
                self._connection.executemany("DELETE FROM vectors WHERE collection = ? AND key = ?", rows)
            self._loaded.pop(collection, None)

    def search(
        self, collections: Iterable[str], vector: Sequence[float], *, top_k: int, threshold: float = 0.0
    ) -> list[Match]:
        """Return the nearest items of some collections, best first.

        Args:
            collections: Where to look.
            vector: What to look for.
            top_k: How many items to return at most.
            threshold: Items with a lower score are left out.
        """
        if top_k <= 0:
            return []
        wanted = array("f", _normalized(vector))
        with self._lock:
            found = [match for each in dict.fromkeys(collections) for match in self._nearest(each, wanted, top_k)]
        near = (match for match in found if match.score >= threshold)
        return heapq.nlargest(top_k, near, key=lambda match: match.score)

    def _nearest(self, collection: str, wanted: array[float], top_k: int) -> list[Match]:
        """Return all items of a collection that may be among its ``top_k`` best, with exact scores."""
        items = self._searchable(collection).get(len(wanted))
        if items is None:
            return []
        ids = items.ids if len(items.ids) <= top_k else items.candidates(wanted, top_k)
        found: list[Match] = []
        for start in range(0, len(ids), ASKED_AT_ONCE):
            asked = ids[start : start + ASKED_AT_ONCE]
            marks = ",".join("?" * len(asked))
            query = f"SELECT text, key, place, vector FROM vectors WHERE id IN ({marks})"  # noqa: S608  # question marks only
            rows = self._connection.execute(query, asked)
            for text, key, place, stored in rows:
                score = sum(map(mul, _numbers(stored), wanted))
                found.append(Match(collection, text, key, place, score))
        return found

    def _searchable(self, collection: str) -> dict[int, _Searchable]:
        """Return the items of a collection by the length of their vectors."""
        loaded = self._loaded.get(collection)
        if loaded is None:
            rows: dict[int, list[tuple[int, bytes, float]]] = {}
            column = "codes" if self._numpy is None else "vector"
            query = f"SELECT id, {column}, error FROM vectors WHERE collection = ? ORDER BY id"  # noqa: S608  # one of two names
            for row in self._connection.execute(query, (collection,)):
                rows.setdefault(len(row[1]), []).append(row)
            loaded = self._loaded[collection] = dict(self._made(size, items) for size, items in rows.items())
        return loaded

    def _made(self, size: int, items: Sequence[tuple[int, bytes, float]]) -> tuple[int, _Searchable]:
        ids = [item[0] for item in items]
        if self._numpy is not None:
            length = size // array("f").itemsize
            return length, Matrix(self._numpy, ids, b"".join(item[1] for item in items), length)
        blocks = [_block(size, items[at : at + BLOCK_ITEMS]) for at in range(0, len(items), BLOCK_ITEMS)]
        return size, _Columns(ids, blocks)


_MIDDLE: Final = 1 << (8 * SLOT_BYTES - 1)


def _everywhere(number: int, count: int) -> int:
    """Return an integer with the same number in all slots."""
    return int.from_bytes(number.to_bytes(SLOT_BYTES, "little") * count, "little")


def _scale(size: int) -> float:
    """Return the value of a code of 1. Few numbers of a vector are larger than twelve times their usual size."""
    return min(1.0, 12 / math.sqrt(max(size, 1))) / CODE_LIMIT


def _stored(vector: array[float]) -> tuple[bytes, bytes, float]:
    """Return a vector of length one, its codes (one non-negative byte each) and their distance from it."""
    scale = _scale(len(vector))
    codes = [min(max(round(number / scale), -CODE_LIMIT), CODE_LIMIT) for number in vector]
    error = math.sqrt(sum((number - code * scale) ** 2 for number, code in zip(vector, codes, strict=True)))
    return vector.tobytes(), bytes(code + CODE_LIMIT for code in codes), error


def _block(size: int, items: Sequence[tuple[int, bytes, float]]) -> _Block:
    codes, count = b"".join(item[1] for item in items), len(items)
    zero = _everywhere(CODE_LIMIT, count)
    columns: list[int] = []
    for place in range(size):
        slots = bytearray(SLOT_BYTES * count)
        slots[::SLOT_BYTES] = codes[place::size]
        columns.append(int.from_bytes(slots, "little") - zero)
    return _Block([item[0] for item in items], columns, max(item[2] for item in items))


def _candidates(blocks: Sequence[_Block], wanted: array[float], top_k: int) -> list[int]:
    scale = max(map(abs, wanted), default=0.0) / QUERY_LIMIT or 1.0
    query = [round(number / scale) for number in wanted]
    query_error = math.sqrt(sum((number - code * scale) ** 2 for number, code in zip(wanted, query, strict=True)))
    unit = _scale(len(wanted)) * scale
    scored: list[tuple[_Block, array[int], int]] = []
    certain: list[int] = []
    for block in blocks:
        scores = block.scores(query)
        # Both vectors have length one: a product is off by at most both errors plus their product.
        off_by = block.error + query_error + block.error * query_error + 1e-6
        margin = math.ceil(off_by / unit) + 1
        scored.append((block, scores, margin))
        certain += [score - margin for score in heapq.nlargest(top_k, scores)]
    least = heapq.nlargest(top_k, certain)[-1]
    return [
        item_id
        for block, scores, margin in scored
        for item_id, score in zip(block.ids, scores, strict=True)
        if score + margin >= least
    ]


def _numbers(stored: bytes) -> array[float]:
    vector = array("f")
    vector.frombytes(stored)
    return vector


def _normalized(vector: Sequence[float]) -> list[float]:
    length = math.sqrt(sum(number * number for number in vector))
    return [number / length for number in vector] if length and math.isfinite(length) else [0.0] * len(vector)
