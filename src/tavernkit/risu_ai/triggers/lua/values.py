"""What crosses between Python and Lua: texts as bytes, numbers, booleans, nothing, and plain tables to Python."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol, cast

from tavernkit.risu_ai.triggers.signals import TriggerFailedError
from tavernkit.text.js_values import MAX_SAFE_INTEGER
from tavernkit.values import Json


class LuaTable(Protocol):
    """A table as lupa hands it over."""

    def items(self) -> Iterable[tuple[object, object]]:
        """Keys and values, read without metamethods."""
        ...


LuaValue = bool | int | float | bytes | None
"""What Lua gets."""

MAX_TABLE_DEPTH = 50
"""How deep a table may be nested that is handed to the host."""

MAX_TABLE_ITEMS = 100_000
"""How many values it may have."""

_MAX_INTEGER = 2**63


def to_lua(value: object) -> LuaValue:
    """Turn a value into one that Lua gets; texts are UTF-8, where half a character becomes a replacement mark."""
    if isinstance(value, str):
        return to_bytes(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return value if -_MAX_INTEGER <= value < _MAX_INTEGER else float(value)
    return value if isinstance(value, (bool, float)) else None


def to_bytes(text: str) -> bytes:
    """Encode a text for Lua."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()


class TableReader:
    """Reads one argument, and gives up on tables that are too large."""

    def __init__(self, type_of: Callable[[object], str | None]) -> None:
        self._type_of = type_of

    def read(self, value: object) -> Json:
        """Turn what Lua passed into JSON; functions and other things that are none become nothing."""
        return self._read(value, 0, [MAX_TABLE_ITEMS])

    def _read(self, value: object, depth: int, left: list[int]) -> Json:
        if isinstance(value, bytes):
            return value.decode("utf-8", "replace")
        if value is None or isinstance(value, (bool, float)):
            return value
        if isinstance(value, int):
            return value if abs(value) <= MAX_SAFE_INTEGER else float(value)  # JavaScript has only doubles
        if self._type_of(value) != "table":
            return None
        if depth >= MAX_TABLE_DEPTH:
            raise TriggerFailedError("a table is nested too deeply")
        return self._read_table(cast("LuaTable", value), depth, left)

    def _read_table(self, table: LuaTable, depth: int, left: list[int]) -> Json:
        found: dict[object, Json] = {}
        for key, value in table.items():
            left[0] -= 1
            if left[0] < 0:
                raise TriggerFailedError("a table is too large")
            found[key.decode("utf-8", "replace") if isinstance(key, bytes) else key] = self._read(
                value, depth + 1, left
            )
        if found and all(index in found for index in range(1, len(found) + 1)):
            return [found[index] for index in range(1, len(found) + 1)]
        return {str(key): value for key, value in found.items()}
