"""An index of vectors in SQLite."""

from __future__ import annotations

import heapq
import math
import os
import sqlite3
import threading
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import mul

from tavernkit.errors import ConfigError

SHORTLIST = 400
"""How many candidates are compared exactly. Larger collections are first narrowed down by the signs of the numbers."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS items (
  id INTEGER PRIMARY KEY,
  collection TEXT NOT NULL,
  key TEXT NOT NULL,
  place INTEGER NOT NULL,
  text TEXT NOT NULL,
  vector BLOB NOT NULL,
  signs BLOB NOT NULL,
  UNIQUE (collection, key, place)
)
"""


@dataclass(frozen=True, slots=True)
class IndexItem:
    """A text to index. Items of one ``key`` are chunks of the same text, in the order of ``place``."""

    text: str
    key: str
    place: int = 0


@dataclass(frozen=True, slots=True)
class Match:
    """An item that a search found, with the cosine of the angle between its vector and the one searched for."""

    collection: str
    text: str
    key: str
    place: int
    score: float


class VectorIndex:
    """Texts and their vectors by collection. It can be shared between threads."""

    def __init__(self, path: str | os.PathLike[str] = ":memory:") -> None:
        self._lock = threading.Lock()
        self._connection = sqlite3.connect(path, check_same_thread=False)
        self._connection.execute(_SCHEMA)
        self._signs: dict[str, tuple[list[int], list[int]]] = {}

    def close(self) -> None:
        """Close the database."""
        self._connection.close()

    def keys(self, collection: str) -> frozenset[str]:
        """Return the keys that a collection has."""
        with self._lock:
            rows = self._connection.execute("SELECT DISTINCT key FROM items WHERE collection = ?", (collection,))
            return frozenset(str(key) for (key,) in rows)

    def add(self, collection: str, items: Sequence[IndexItem], vectors: Sequence[Sequence[float]]) -> None:
        """Add items; one that is there already is replaced.

        Args:
            collection: Where the items belong.
            items: The items.
            vectors: A vector for each of them.

        Raises:
            ConfigError: If there are more or fewer vectors than items.
        """
        if len(items) != len(vectors):
            raise ConfigError(f"{len(items)} items need as many vectors, not {len(vectors)}")
        rows = [
            (collection, item.key, item.place, item.text, *_stored(vector))
            for item, vector in zip(items, vectors, strict=True)
        ]
        with self._lock, self._connection:
            self._connection.executemany(
                "INSERT OR REPLACE INTO items (collection, key, place, text, vector, signs) VALUES (?, ?, ?, ?, ?, ?)",
                rows,
            )
            self._signs.pop(collection, None)

    def remove(self, collection: str) -> None:
        """Forget a collection."""
        with self._lock, self._connection:
            self._connection.execute("DELETE FROM items WHERE collection = ?", (collection,))
            self._signs.pop(collection, None)

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
        wanted = array("f", _normalized(vector))
        signs = _sign_bits(wanted)
        with self._lock:
            found = [match for each in collections for match in self._compared(each, wanted, signs)]
        near = (match for match in found if match.score >= threshold)
        return heapq.nlargest(max(top_k, 0), near, key=lambda match: match.score)

    def _compared(self, collection: str, wanted: array[float], signs: int) -> list[Match]:
        ids, bits = self._loaded(collection)
        if len(ids) > SHORTLIST:
            # Vectors that point the same way have mostly the same signs: counting bits is quick.
            apart = [(signs ^ each).bit_count() for each in bits]
            ids = [ids[place] for place in heapq.nsmallest(SHORTLIST, range(len(ids)), key=apart.__getitem__)]
        marks = ",".join("?" * len(ids))
        rows = self._connection.execute(f"SELECT text, key, place, vector FROM items WHERE id IN ({marks})", ids)  # noqa: S608  # question marks only
        found: list[Match] = []
        for text, key, place, stored in rows:
            vector = array("f")
            vector.frombytes(stored)
            score = sum(map(mul, vector, wanted)) if len(vector) == len(wanted) else -1.0
            found.append(Match(collection, text, key, place, score))
        return found

    def _loaded(self, collection: str) -> tuple[list[int], list[int]]:
        loaded = self._signs.get(collection)
        if loaded is None:
            rows = self._connection.execute(
                "SELECT id, signs FROM items WHERE collection = ? ORDER BY id", (collection,)
            ).fetchall()
            loaded = [row[0] for row in rows], [int.from_bytes(row[1], "big") for row in rows]
            self._signs[collection] = loaded
        return loaded


def _normalized(vector: Sequence[float]) -> list[float]:
    length = math.sqrt(sum(number * number for number in vector))
    return [number / length for number in vector] if length and math.isfinite(length) else [0.0] * len(vector)


def _stored(vector: Sequence[float]) -> tuple[bytes, bytes]:
    numbers = array("f", _normalized(vector))
    return numbers.tobytes(), _sign_bits(numbers).to_bytes(len(numbers) // 8 + 1, "big")


def _sign_bits(vector: array[float]) -> int:
    return int("0" + "".join("1" if number > 0 else "0" for number in vector), 2)
