"""Temp variables, which exist while one text is expanded."""

from __future__ import annotations

from tavernkit._text.js_values import is_index_key, to_string, truthy
from tavernkit._values import Json, is_list, is_object
from tavernkit.risu_ai._cbs.signals import FunctionFailure, Returned

FORCE_RETURN = "__force_return__"
RETURN_VALUE = "__return__"


class TempVariables:
    """A map of names to values. ``element`` can replace it with any JSON value, so it may not be a map."""

    __slots__ = ("_values",)

    def __init__(self) -> None:
        self._values: dict[str, Json] | None = {}

    def get(self, name: str) -> str:
        """Read a variable; one that is not set is empty."""
        value = None if self._values is None else self._values.get(name)
        return "" if value is None else to_string(value)

    def set(self, name: str, value: str | None) -> None:
        """Write a variable; None unsets it."""
        if self._values is None:
            raise FunctionFailure("the temp variables were replaced by a value that holds none")
        self._values[name] = value
        if "length" in self._values and is_index_key(name):
            length = self._values["length"]
            self._values["length"] = max(int(name) + 1, length if isinstance(length, int) else 0)

    def replace(self, value: Json) -> None:
        """Put a JSON value in place of all variables: an array is a map of its indexes, a plain value has none."""
        if is_object(value):
            self._values = dict(value)
        elif is_list(value):
            self._values = {str(index): item for index, item in enumerate(value)}
            self._values["length"] = len(value)
        else:
            self._values = None

    def check_return(self) -> None:
        """End the text when a variable says so."""
        if self._values is not None and truthy(self._values.get(FORCE_RETURN)):
            raise Returned(to_string(self._values.get(RETURN_VALUE)))
