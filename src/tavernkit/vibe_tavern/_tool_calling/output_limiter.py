"""Checks the size of a tool result before it is written as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tavernkit._dataclass import dataclass
from tavernkit._text.strict_json import byte_length
from tavernkit._values import is_mapping, is_sequence
from tavernkit.vibe_tavern._limits import (
    MAX_TOOL_OUTPUT_DEPTH,
    MAX_TOOL_OUTPUT_ITEMS,
    MAX_TOOL_OUTPUT_KEYS,
    MAX_TOOL_OUTPUT_NODES,
)

_NULL_BYTES = 4
_BOOLEAN_BYTES = 5
_OBJECT_BYTES = 64
_PRINTABLE_BITS = 10_000
"""Python refuses to print integers much longer than this."""


@dataclass(frozen=True, slots=True)
class OutputVerdict:
    """True if a result may be written; ``reason`` names the limit it exceeds."""

    estimated_bytes: int
    reason: str | None = None

    @property
    def ok(self) -> bool:
        """True if no limit was hit."""
        return self.reason is None


def check_output(value: object, *, max_bytes: int) -> OutputVerdict:
    """Walk a result and stop at the first limit. A container that was already visited is skipped, so cycles end."""
    walk = _Walk(max_bytes)
    try:
        walk.visit(value, 1)
    except _LimitHitError as hit:
        return OutputVerdict(walk.bytes, str(hit))
    return OutputVerdict(walk.bytes)


class _LimitHitError(Exception):
    pass


class _Walk:
    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._nodes = 0
        self._seen: set[int] = set()
        self.bytes = 0

    def visit(self, value: object, depth: int) -> None:
        if depth > MAX_TOOL_OUTPUT_DEPTH:
            raise _LimitHitError("MAX_DEPTH")
        self._nodes += 1
        if self._nodes > MAX_TOOL_OUTPUT_NODES:
            raise _LimitHitError("MAX_NODES")
        if is_mapping(value):
            self._mapping(value, depth)
        elif is_sequence(value):
            self._sequence(value, depth)
        else:
            self._add(self._scalar(value))

    def _mapping(self, value: Mapping[str, object], depth: int) -> None:
        if not self._is_new(value):
            return
        if len(value) > MAX_TOOL_OUTPUT_KEYS:
            raise _LimitHitError("MAX_HASH_KEYS")
        for key, item in value.items():
            self._add(byte_length(str(key)))
            self.visit(item, depth + 1)

    def _sequence(self, value: Sequence[object], depth: int) -> None:
        if not self._is_new(value):
            return
        if len(value) > MAX_TOOL_OUTPUT_ITEMS:
            raise _LimitHitError("MAX_ARRAY_ITEMS")
        for item in value:
            self.visit(item, depth + 1)

    def _scalar(self, value: object) -> int:
        if value is None:
            return _NULL_BYTES
        if isinstance(value, bool):
            return _BOOLEAN_BYTES
        if isinstance(value, str):
            size = byte_length(value)
            if size > self._max_bytes:
                raise _LimitHitError("STRING_TOO_LARGE")
            return size
        if isinstance(value, int):
            bits = value.bit_length()
            return len(str(value)) if bits < _PRINTABLE_BITS else bits // 3
        return len(str(value)) if isinstance(value, float) else _OBJECT_BYTES

    def _is_new(self, container: object) -> bool:
        if id(container) in self._seen:
            return False
        self._seen.add(id(container))
        return True

    def _add(self, size: int) -> None:
        self.bytes += size
        if self.bytes > self._max_bytes:
            raise _LimitHitError("MAX_BYTES")
