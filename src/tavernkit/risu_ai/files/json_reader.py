"""Reads typed values out of RisuAI's JSON: what has the wrong type is reported and replaced by the default."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias, TypeVar

from tavernkit.errors import Warn
from tavernkit.values import EMPTY_OBJECT, FrozenObject, freeze_object, is_mapping, is_sequence, shown

T = TypeVar("T")

AnyJson: TypeAlias = str | float | bool | Sequence[object] | Mapping[str, object] | None
"""What files may hold where something else is expected: it is reported, while what is no JSON at all is refused."""


class JsonReader:
    """One JSON object. A key that is missing or null has the default; ``where`` names the object in warnings."""

    def __init__(self, value: Mapping[str, object], where: str, warn: Warn) -> None:
        self.value = value
        self.where = where
        self._warn = warn

    def text(self, key: str, default: str = "") -> str:
        """A text; numbers and booleans are no texts."""
        found = self.value.get(key)
        if found is None or isinstance(found, str):
            return default if found is None else found
        return self._wrong(key, "text", default)

    def number(self, key: str, default: float) -> float:
        """A number; a text that is one counts."""
        found = self.value.get(key)
        if isinstance(found, (int, float)) and not isinstance(found, bool):
            return found
        if isinstance(found, str):
            try:
                number = float(found)
            except ValueError:
                return self._wrong(key, "a number", default)
            return int(number) if number == number and abs(number) < 2**53 and number == int(number) else number
        return default if found is None else self._wrong(key, "a number", default)

    def integer(self, key: str, default: int) -> int:
        """A whole number; a fraction is cut off."""
        found = self.number(key, default)
        return int(found) if found == found and abs(found) < 2**53 else default

    def flag(self, key: str, *, default: bool = False) -> bool:
        """Whether something is on, as JavaScript sees it."""
        found = self.value.get(key)
        return default if found is None else bool(found)

    def texts(self, key: str, default: tuple[str, ...] = ()) -> tuple[str, ...]:
        """A list of texts; other items are left out."""
        found = self.value.get(key)
        if not is_sequence(found):
            return default if found is None else self._wrong(key, "a list", default)
        return tuple(item for item in found if isinstance(item, str))

    def objects(self, key: str) -> tuple[FrozenObject, ...]:
        """A list of objects; other items are left out."""
        found = self.value.get(key)
        if not is_sequence(found):
            return () if found is None else self._wrong(key, "a list", ())
        return tuple(freeze_object(item) for item in found if is_mapping(item))

    def object(self, key: str) -> FrozenObject:
        """An object."""
        found = self.value.get(key)
        if not is_mapping(found):
            return EMPTY_OBJECT if found is None else self._wrong(key, "an object", EMPTY_OBJECT)
        return freeze_object(found)

    def _wrong(self, key: str, wanted: str, default: T) -> T:
        self._warn(f"{self.where}: {key} is {shown(self.value[key])} where {wanted} is expected; it is not used")
        return default
