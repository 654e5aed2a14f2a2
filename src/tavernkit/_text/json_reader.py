"""Reads typed values from a JSON object of a file."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TypeVar

from tavernkit._arguments import require
from tavernkit._text.js_values.numbers import as_float, string_to_number
from tavernkit._text.js_values.strings import trim
from tavernkit._values import EMPTY_OBJECT, FrozenObject, is_mapping, is_sequence, shown, thaw
from tavernkit.errors import Warn

T = TypeVar("T")


def as_number(value: object) -> int | float | None:
    """Return a number, also from text that ``Number()`` reads; None for anything else. 4.0 becomes 4.

    Blank text is None, although ``Number()`` returns 0 for it.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    if isinstance(value, str):
        value = string_to_number(value) if trim(value) else math.nan
    number = as_float(value)
    if not math.isfinite(number):
        return None
    if isinstance(value, int):
        return value
    return int(number) if number.is_integer() else number


def json_object(data: Mapping[str, object], what: str) -> Mapping[str, object]:
    """Return parsed JSON that a program passes; raise ``ConfigError`` if it is not an object."""
    if not is_mapping(data):
        require(what, data, Mapping, "a JSON object")
    return data


class JsonReader:
    """Reads keys of one object; a value of the wrong type is reported with its location, and the default is used.

    Values that JavaScript would accept (numbers as text, any truthy value as a switch) are accepted too.
    """

    __slots__ = ("data", "warn", "where")

    def __init__(self, data: Mapping[str, object], where: str, warn: Warn) -> None:
        self.data = json_object(data, where)
        self.where = where
        self.warn = warn

    def text(self, key: str, default: str = "") -> str:
        """Read text; null counts as empty text."""
        value = self.data.get(key, default)
        if isinstance(value, str):
            return value
        if value is None:
            return ""
        return self._wrong(key, value, "text", default)

    def optional_text(self, key: str) -> str | None:
        """Read text; None if there is none."""
        value = self.data.get(key)
        if value is None or isinstance(value, str):
            return value
        return self._wrong(key, value, "text", None)

    def flag(self, key: str, default: bool = False) -> bool:
        """Read a switch; numbers and text count as in JavaScript."""
        value = self.data.get(key, default)
        if isinstance(value, bool):
            return value
        if value is None or isinstance(value, (int, float, str)):
            return bool(value) and value == value
        return self._wrong(key, value, "true or false", default)

    def integer(self, key: str, default: int) -> int:
        """Read a whole number (also written as text)."""
        value = self.data.get(key, default)
        number = as_number(value)
        return number if isinstance(number, int) else self._wrong(key, value, "a whole number", default)

    def number(self, key: str, default: float) -> float:
        """Read a number (also written as text)."""
        value = self.data.get(key, default)
        number = as_number(value)
        return self._wrong(key, value, "a number", default) if number is None else number

    def texts(self, key: str) -> tuple[str, ...]:
        """Read a list of texts; other items are reported and left out."""
        found: list[str] = []
        for item in self.items(key):
            if isinstance(item, str):
                found.append(item)
            else:
                self._wrong(key, item, "a list of texts", None)
        return tuple(found)

    def items(self, key: str) -> tuple[object, ...]:
        """Read a list; empty if there is none."""
        value = self.data.get(key)
        if value is None:
            return ()
        return tuple(value) if is_sequence(value) else self._wrong(key, value, "a list", ())

    def objects(self, key: str) -> tuple[Mapping[str, object], ...]:
        """Read a list of objects; other items are reported and left out."""
        found: list[Mapping[str, object]] = []
        for index, item in enumerate(self.items(key)):
            if is_mapping(item):
                found.append(item)
            else:
                self._wrong(f"{key}[{index}]", item, "an object", None)
        return tuple(found)

    def object(self, key: str) -> FrozenObject:
        """Read an object, or an empty one if there is none."""
        value = self.data.get(key)
        if value is None:
            return EMPTY_OBJECT
        if is_mapping(value):
            return value  # pyright: ignore[reportReturnType]  # the file's own object; read only from here on
        return self._wrong(key, value, "an object", EMPTY_OBJECT)

    def reader(self, key: str) -> JsonReader:
        """Read an object's own keys."""
        return JsonReader(self.object(key), f"{self.where}.{key}", self.warn)

    def _wrong(self, key: str, value: object, wanted: str, default: T) -> T:
        self.warn(f"{self.where}: {key} should be {wanted}, not {shown(thaw(value))}; {shown(thaw(default))} is used")
        return default
