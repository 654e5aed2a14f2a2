"""Variables: as macros read, add to and index them, by JavaScript's rules, and where SillyTavern keeps them."""

from __future__ import annotations

import math
import threading
from collections.abc import MutableMapping

from tavernkit._text.js_values import (
    UNDEFINED,
    JSError,
    Undefined,
    json_parse,
    json_stringify,
    number_to_string,
    to_number,
    to_string,
    trim,
    truthy,
    utf16_at,
    utf16_length,
)
from tavernkit._values import Json, is_list, is_object
from tavernkit.silly_tavern._macros.call import MacroFailure
from tavernkit.silly_tavern._macros.limits import MAX_ARRAY_LENGTH
from tavernkit.stores._variables import LOCAL, VariablesStore

_MAX_EXACT = 2**53


def read(store: VariablesStore, name: str, scope: str) -> Json:
    """Read a variable: empty text when it is not set, numeric text as a number (``007`` gives 7)."""
    value = store.get(name, scope)
    if value is None and not store.has(name, scope):
        return ""
    return _as_read(value)


def exists(store: VariablesStore, name: str, scope: str) -> bool:
    """Return True if a variable is set."""
    return store.has(name, scope)


def write(store: VariablesStore, name: str, value: Json, scope: str) -> None:
    """Store a value unchanged."""
    _require_name(name)
    store.set(name, value, scope)


def add(store: VariablesStore, name: str, operand: str | float, scope: str) -> Json:
    """Add to a variable: append to a JSON array, add numbers, or join as text. Returns the new value.

    Whatever JavaScript calls falsy counts as 0, so that adding empty text to a missing variable stores 0.
    """
    _require_name(name)
    current = read(store, name, scope)
    array = _parse(current)
    if is_list(array):
        array.append(_plain(operand))
        store.set(name, json_stringify(array), scope)
        return array
    number = to_number(current) if truthy(current) else 0.0
    total = number + to_number(operand)
    if math.isnan(number) or math.isnan(to_number(operand)):
        result: Json = (to_string(current) if truthy(current) else "") + to_string(operand)
    else:
        result = _plain(total)
    store.set(name, result, scope)
    return result


def delete(store: VariablesStore, name: str, scope: str) -> None:
    """Remove a variable if it is set."""
    if store.has(name, scope):
        store.delete(name, scope)


def read_key(store: VariablesStore, name: str, key: str, scope: str) -> Json:
    """Read one value of a JSON array or object.

    As in SillyTavern, the key is ignored if the variable is not JSON, and any key of ``null`` gives 0.
    """
    if not store.has(name, scope):
        read(store, name, scope)  # creates the chat's variables, see ``ChatVariables``
        return ""
    value = store.get(name, scope)
    parsed = _parse(value)
    if isinstance(parsed, Undefined):
        return _as_read(value)
    if parsed is None:
        return 0
    found = _index(parsed, _property(key))
    if isinstance(found, Undefined):
        return ""
    return _as_read(json_stringify(found) if found is None or is_list(found) or is_object(found) else found)


def write_key(store: VariablesStore, name: str, key: str, value: str, scope: str) -> bool:
    """Write one value to a JSON array or object and store it as JSON; return False if that is not possible."""
    _require_name(name)
    parsed = _parse(store.get(name, scope))
    if parsed is None:
        parsed = _empty_for(key)
    name_of_key = _property(key)
    if is_list(parsed):
        if not _assign(parsed, name_of_key, value):
            return False
    elif is_object(parsed):
        parsed[name_of_key] = value
    else:
        return False
    store.set(name, json_stringify(parsed), scope)
    return True


def is_false(value: Json) -> bool:
    """Return True if ``||`` uses its right side: empty, zero, null, false, or text that means one of these."""
    if isinstance(value, str):
        return not value or trim(value).lower() in ("false", "off", "0")
    return not truthy(value)


def _require_name(name: str) -> None:
    if not name:
        raise MacroFailure("a variable needs a name")


def _as_read(value: Json) -> Json:
    if isinstance(value, str) and not trim(value):
        return value
    # Also values that are not text: true gives 1, null and an empty list give 0.
    number = to_number(value)
    if not math.isnan(number):
        return _plain(number)
    return value if truthy(value) else ""


def _plain(value: str | float) -> str | int | float:
    if isinstance(value, float) and value.is_integer() and abs(value) < _MAX_EXACT:
        return int(value)
    return value


def _parse(value: Json) -> Json | Undefined:
    """Return ``JSON.parse`` of the value's text; undefined if that throws."""
    try:
        return json_parse(to_string(value))
    except JSError:
        return UNDEFINED


def _empty_for(key: str) -> Json:
    # An empty key is the number 0.
    return {} if math.isnan(to_number(key)) else []


def _property(key: str) -> str:
    # Numbers are normalised for objects too: the key 007 is 7, and 1.50 is 1.5.
    number = to_number(key)
    return key if math.isnan(number) else number_to_string(number)


def _index(value: Json, key: str) -> Json | Undefined:
    if is_object(value):
        return value.get(key, UNDEFINED)
    position = int(key) if key.isascii() and key.isdigit() and len(key) < 10 else -1
    if is_list(value):
        if key == "length":
            return len(value)
        return value[position] if 0 <= position < len(value) else UNDEFINED
    if isinstance(value, str):
        if key == "length":
            return utf16_length(value)
        return utf16_at(value, position) if 0 <= position < utf16_length(value) else UNDEFINED
    return UNDEFINED


def _assign(array: list[Json], key: str, value: str) -> bool:
    """Set an element; other properties of an array are lost when it is written as JSON."""
    if key == "length":
        return _resize(array, to_number(value))
    if not (key.isascii() and key.isdigit()):
        return True
    position = int(key)
    if position >= MAX_ARRAY_LENGTH:
        raise MacroFailure(f"index {key} is beyond the limit of {MAX_ARRAY_LENGTH} elements")
    array.extend([None] * (position + 1 - len(array)))
    array[position] = value
    return True


def _resize(array: list[Json], length: float) -> bool:
    if not length.is_integer() or not 0 <= length < 2**32:
        return False
    if length > MAX_ARRAY_LENGTH:
        raise MacroFailure(f"length {number_to_string(length)} is beyond the limit of {MAX_ARRAY_LENGTH} elements")
    array[int(length) :] = [None] * (int(length) - len(array))
    return True


KEY = "variables"
"""The key of the variables in a chat's metadata."""


class ChatVariables:
    """A ``VariablesStore`` over a chat's metadata and the global variables of the settings.

    Changes go directly into both, so that they are saved with them. As in SillyTavern, reading or writing a local
    variable creates the ``variables`` object in the metadata; checking or deleting one does not.
    """

    def __init__(self, chat_metadata: MutableMapping[str, Json], global_variables: MutableMapping[str, Json]) -> None:
        self._metadata = chat_metadata
        self._global = global_variables
        self._version = 0
        self._lock = threading.RLock()

    @property
    def cache_version(self) -> int | None:
        """Increases with every change."""
        return self._version

    def get(self, name: str, scope: str = LOCAL) -> Json:
        """Return a value, or None if there is none."""
        return self._values(scope).get(name)

    def set(self, name: str, value: Json, scope: str = LOCAL) -> None:
        """Store a value."""
        with self._lock:
            self._values(scope)[name] = value
            self._version += 1

    def has(self, name: str, scope: str = LOCAL) -> bool:
        """Return True if the name is set to any value."""
        if scope != LOCAL:
            return name in self._global
        values = self._metadata.get(KEY)
        return is_object(values) and name in values

    def delete(self, name: str, scope: str = LOCAL) -> None:
        """Remove a value if it exists."""
        with self._lock:
            if self.has(name, scope):
                del self._values(scope)[name]
                self._version += 1

    def add(self, name: str, value: Json, scope: str = LOCAL) -> Json:
        """Add to a value: numbers are summed, anything else is joined as text. Returns the new value."""
        with self._lock:
            old = self.get(name, scope)
            new = value if old is None else _sum(old, value)
            self.set(name, new, scope)
            return new

    def _values(self, scope: str) -> MutableMapping[str, Json]:
        if scope != LOCAL:
            return self._global
        values = self._metadata.get(KEY)
        if not is_object(values):
            values = {}
            self._metadata[KEY] = values
        return values


def _sum(old: Json, value: Json) -> Json:
    if isinstance(old, (int, float)) and isinstance(value, (int, float)):
        return old + value
    return f"{old}{value}"
