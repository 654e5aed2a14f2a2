"""Variables where SillyTavern keeps them: in the chat's metadata and in the settings."""

from __future__ import annotations

import threading
from collections.abc import MutableMapping

from tavernkit._values import Json, is_object
from tavernkit.stores._variables import LOCAL

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
