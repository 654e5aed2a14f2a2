"""Reads typed values from RisuAI's JSON."""

from __future__ import annotations

from tavernkit._text import json_reader
from tavernkit._text.js_values.numbers import MAX_SAFE_INTEGER, as_float
from tavernkit._values import FrozenObject, freeze_object

_NOT_FINITE = ("NaN", "Infinity", "-Infinity")


class JsonReader(json_reader.JsonReader):
    """Reads keys of one object as RisuAI does: null is the default, and fractions are truncated."""

    __slots__ = ()

    def text(self, key: str, default: str = "") -> str:
        """Read text; null is the default."""
        return default if self.data.get(key) is None else super().text(key, default)

    def number(self, key: str, default: float) -> float:
        """Read a number (also written as text); null is the default. NaN stays: RisuAI's own imports make it.

        Infinity stays too, because a chat card may end with it.
        """
        found = self.data.get(key)
        if isinstance(found, (int, float)) and not isinstance(found, bool):
            return found if abs(found) <= MAX_SAFE_INTEGER else as_float(found)
        if isinstance(found, str) and found.strip() in _NOT_FINITE:
            return float(found)
        return default if found is None else super().number(key, default)

    def integer(self, key: str, default: int) -> int:
        """Read a whole number; fractions are truncated."""
        found = self.number(key, default)
        return int(found) if found == found and abs(found) < 2**53 else default

    def flag(self, key: str, default: bool = False) -> bool:
        """Read a switch; null is the default, and other values count as in Python."""
        found = self.data.get(key)
        return default if found is None else bool(found)

    def texts(self, key: str, default: tuple[str, ...] = ()) -> tuple[str, ...]:
        """Read a list of texts; other items are left out."""
        if self.data.get(key) is None:
            return default
        return tuple(item for item in self.items(key) if isinstance(item, str))

    def objects(self, key: str) -> tuple[FrozenObject, ...]:
        """Read a list of objects; other items are reported and left out."""
        return tuple(freeze_object(item) for item in super().objects(key))

    def object(self, key: str) -> FrozenObject:
        """Read an object, frozen."""
        return freeze_object(super().object(key))
