"""Exact searches in the vectors of a collection: as a matrix if NumPy is installed, else as columns of whole numbers.

A block of items has one column for each dimension: one large integer with the codes of all items in slots. Adding up
columns, each multiplied by a number of the query vector, scores all items at once. Columns with the same number are
added before they are multiplied. Scores are slightly inexact, but the maximum error is known.
"""

from __future__ import annotations

import heapq
import importlib
import math
import sys
from array import array
from collections.abc import Sequence
from typing import Protocol, cast

from tavernkit._dataclass import dataclass

CODE_LIMIT, QUERY_LIMIT = 127, 255
"""The largest integers in the codes of stored vectors and of the query vector."""
NARROW_DIMENSIONS = 512
"""Scores of longer vectors need wider slots: in narrow ones they would be too inexact to exclude many items."""
MAX_DIMENSIONS = 8192
"""Longer vectors are refused."""
BLOCK_ITEMS = 16_000
"""Items per block: few enough for the processor's cache and for memory that is already allocated."""

Bound = tuple[float, int]
"""The score that an item has at most, and its id."""


def encode(vector: array[float]) -> tuple[bytes, float]:
    """Return the codes of a vector of length one, a non-negative byte each, and their distance from it."""
    scale = _scale(len(vector))
    codes = [min(max(round(number / scale), -CODE_LIMIT), CODE_LIMIT) for number in vector]
    error = math.sqrt(sum((number - code * scale) ** 2 for number, code in zip(vector, codes, strict=True)))
    return bytes(code + CODE_LIMIT for code in codes), error


def _scale(size: int) -> float:
    """Return the value of a code of 1. Few numbers of a vector are larger than twelve times their usual size."""
    return min(1.0, 12 / math.sqrt(max(size, 1))) / CODE_LIMIT


@dataclass(frozen=True, slots=True)
class _Block:
    """Some items of a collection; ``error`` is the maximum distance of a vector from its codes."""

    ids: Sequence[int]
    columns: Sequence[int]
    error: float


class Columns:
    """Items whose vectors have the same length, as blocks of columns."""

    def __init__(self, size: int, items: Sequence[tuple[int, bytes, float]]) -> None:
        """Make the columns.

        Args:
            size: The length of the vectors.
            items: The items' ids, codes and errors.
        """
        self.ids = [item[0] for item in items]
        self._size = size
        self._slot = 2 if size <= NARROW_DIMENSIONS else 4
        self._blocks = [self._block(items[at : at + BLOCK_ITEMS]) for at in range(0, len(items), BLOCK_ITEMS)]

    def bounds(self, wanted: array[float], top_k: int) -> list[Bound]:
        """Return all items that may be among the best, by the highest score that each may have, best first.

        Args:
            wanted: The query vector, of length one.
            top_k: How many items are wanted; fewer than there are.
        """
        step = self._step(wanted)
        query = [round(number / step) for number in wanted]
        query_error = math.sqrt(sum((number - code * step) ** 2 for number, code in zip(wanted, query, strict=True)))
        columns = _by_number(query)
        unit = _scale(self._size) * step
        scored: list[tuple[_Block, array[int], int]] = []
        certain: list[int] = []
        for block in self._blocks:
            scores = self._scores(block, columns)
            # Both vectors have length one: a product is off by at most both errors plus their product.
            off_by = block.error + query_error + block.error * query_error + 1e-6
            margin = math.ceil(off_by / unit) + 1
            scored.append((block, scores, margin))
            certain += [score - margin for score in heapq.nlargest(top_k, scores)]
        least = heapq.nlargest(top_k, certain)[-1]
        middle = self._middle
        found = [
            ((score + margin - middle) * unit, item_id)
            for block, scores, margin in scored
            for item_id, score in zip(block.ids, scores, strict=True)
            if score >= least - margin
        ]
        return sorted(found, reverse=True)

    @property
    def _middle(self) -> int:
        """The number in a slot that stands for a score of 0."""
        return 1 << (8 * self._slot - 1)

    def _step(self, wanted: array[float]) -> float:
        """Return the value of a 1 in the query's codes: the smallest with which no score can leave its slot.

        The codes of a vector of length one are a vector whose length is at most one plus half of a step per dimension.
        """
        half = math.sqrt(self._size) / 2
        longest = 1 / _scale(self._size) + half
        room = (self._middle - 2) / longest - half
        return max(max(map(abs, wanted), default=0.0) / QUERY_LIMIT, 1.001 / room)

    def _block(self, items: Sequence[tuple[int, bytes, float]]) -> _Block:
        codes, count, slot = b"".join(item[1] for item in items), len(items), self._slot
        zero = _everywhere(CODE_LIMIT, slot, count)
        columns: list[int] = []
        for place in range(self._size):
            slots = bytearray(slot * count)
            slots[::slot] = codes[place :: self._size]
            columns.append(int.from_bytes(slots, "little") - zero)
        return _Block([item[0] for item in items], columns, max(item[2] for item in items))

    def _scores(self, block: _Block, by_number: Sequence[tuple[int, Sequence[int], Sequence[int]]]) -> array[int]:
        """Return the score of each item, above the middle of its slot if it is positive."""
        columns, count = block.columns, len(block.ids)
        total = _everywhere(self._middle, self._slot, count)
        for number, added, subtracted in by_number:
            part = 0
            for place in added:
                part += columns[place]
            for place in subtracted:
                part -= columns[place]
            total += part * number
        found = array("H" if self._slot == 2 else "I")
        found.frombytes(total.to_bytes(self._slot * count, "little"))
        if sys.byteorder == "big":
            found.byteswap()
        return found


def _by_number(query: Sequence[int]) -> list[tuple[int, list[int], list[int]]]:
    """Return the places of each number in the query but 0: where it is positive, and where it is negative."""
    found: dict[int, tuple[list[int], list[int]]] = {}
    for place, number in enumerate(query):
        if number:
            found.setdefault(abs(number), ([], []))[number < 0].append(place)
    return [(number, *places) for number, places in found.items()]


def _everywhere(number: int, slot: int, count: int) -> int:
    """Return an integer with the same number in all slots."""
    return int.from_bytes(number.to_bytes(slot, "little") * count, "little")


ROUNDING = 2.0**-23
"""The maximum error of a product of two numbers, and of each addition."""


class _Array(Protocol):
    def reshape(self, rows: int, columns: int) -> _Array: ...
    def __matmul__(self, other: _Array) -> _Array: ...
    def __getitem__(self, place: int) -> float: ...
    def __ge__(self, other: float) -> _Array: ...
    def tolist(self) -> list[int]: ...


class _NumPy(Protocol):
    """The part of NumPy that is used; it need not be installed."""

    def frombuffer(self, buffer: bytes | array[float], dtype: str) -> _Array: ...
    def partition(self, a: _Array, kth: int) -> _Array: ...
    def flatnonzero(self, a: _Array) -> _Array: ...


def numpy() -> _NumPy | None:
    """Return NumPy if it is installed."""
    try:
        return cast("_NumPy", importlib.import_module("numpy"))
    except ImportError:
        return None


class Matrix:
    """Items whose vectors have the same length, one row for each."""

    def __init__(self, package: _NumPy, ids: Sequence[int], vectors: bytes, length: int) -> None:
        """Make a matrix.

        Args:
            package: NumPy.
            ids: The items' ids.
            vectors: Their vectors of length one, as consecutive 32-bit numbers.
            length: How many numbers a vector has.
        """
        self.ids = ids
        self._package = package
        self._rows = package.frombuffer(vectors, "float32").reshape(len(ids), length)
        self._off_by = 2 * (length + 1) * ROUNDING

    def bounds(self, wanted: array[float], top_k: int) -> list[Bound]:
        """Return all items that may be among the best. They are few, so that they need no bound of their own.

        Args:
            wanted: The query vector.
            top_k: How many items are wanted; fewer than there are.
        """
        package = self._package
        scores = self._rows @ package.frombuffer(wanted, "float32")
        least = package.partition(scores, len(self.ids) - top_k)[len(self.ids) - top_k]
        near = package.flatnonzero(scores >= least - 2 * self._off_by)
        return [(math.inf, self.ids[place]) for place in near.tolist()]
