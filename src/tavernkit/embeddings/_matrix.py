"""Vectors as a matrix, if NumPy is installed."""

from __future__ import annotations

import importlib
import math
from array import array
from collections.abc import Sequence
from typing import Protocol, cast

from tavernkit.embeddings._columns import Bound

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
