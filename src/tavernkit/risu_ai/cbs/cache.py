"""Compiled texts that are kept."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TypeVar

from tavernkit.risu_ai.cbs.compiler import Program
from tavernkit.values import LRUCache

K = TypeVar("K", bound=Hashable)

_NODE_BYTES = 400


class ProgramCache(LRUCache[K, Program]):
    """Keeps the most recently used programs up to about so many bytes."""

    def __init__(self, max_bytes: int) -> None:
        super().__init__(max_bytes, _weight)


def _weight(_: object, program: Program) -> int:
    return program.size * _NODE_BYTES + program.texts + len(program.source)
