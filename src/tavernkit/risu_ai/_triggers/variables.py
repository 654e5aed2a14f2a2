"""The variables of a run: those of the chat, changed without changing the application's store, and local ones."""

from __future__ import annotations

from typing import TypeAlias

from tavernkit._text.js_values import UNDEFINED, Undefined
from tavernkit._values import Json, thaw
from tavernkit.stores._variables import LOCAL, VariablesStore

Value: TypeAlias = "Json | Undefined"
"""A variable's value; ``undefined`` for a missing variable."""


class ScriptState:
    """Chat variables on top of a store that is only read: changes stay here until the application takes them."""

    __slots__ = ("_base", "changes")

    def __init__(self, base: VariablesStore, changes: dict[str, Value] | None = None) -> None:
        self._base = base
        self.changes: dict[str, Value] = {} if changes is None else changes

    @classmethod
    def over(cls, store: VariablesStore) -> ScriptState:
        """Start on top of a store; on top of another state, with a copy of its changes."""
        return store.copy() if isinstance(store, ScriptState) else cls(store)

    def copy(self) -> ScriptState:
        """An independent state with the same values."""
        return ScriptState(self._base, dict(self.changes))

    def take(self, other: ScriptState) -> None:
        """Become equal to another state of the same chat."""
        self.changes = dict(other.changes)

    @property
    def cache_version(self) -> int | None:
        """Nothing: the store below may change as well."""
        return None

    def get(self, name: str, scope: str = LOCAL) -> Json:
        """Return a value, or None if there is none."""
        if scope != LOCAL or name not in self.changes:
            return self._base.get(name, scope)
        value = self.changes[name]
        return None if value is UNDEFINED else value

    def set(self, name: str, value: Value, scope: str = LOCAL) -> None:
        """Store a value. Global variables cannot be written here: triggers have no way to."""
        if scope == LOCAL:
            self.changes[name] = value

    def has(self, name: str, scope: str = LOCAL) -> bool:
        """Return True if the name is set."""
        if scope == LOCAL and name in self.changes:
            return self.changes[name] is not UNDEFINED
        return self._base.has(name, scope)

    def delete(self, name: str, scope: str = LOCAL) -> None:
        """Remove a value."""
        self.set(name, UNDEFINED, scope)

    def add(self, name: str, value: Json, scope: str = LOCAL) -> Json:
        """Add to a value as text."""
        old = self.get(name, scope)
        new = value if old is None else f"{old}{value}"
        self.set(name, new, scope)
        return new

    def changed(self) -> dict[str, Json]:
        """What was written, copied."""
        return {name: thaw(value) for name, value in self.changes.items() if value is not UNDEFINED}

    def removed(self) -> frozenset[str]:
        """What was removed."""
        return frozenset([name for name, value in self.changes.items() if value is UNDEFINED])


class LocalScopes:
    """Local variables by the indent they were declared at."""

    __slots__ = ("_scopes", "indent")

    def __init__(self) -> None:
        self._scopes: dict[float, dict[str, Json]] = {}
        self.indent: float = 0

    def find(self, name: str) -> dict[str, Json] | None:
        """The scope that has the name, seen from the current indent."""
        if not self._scopes:
            return None
        return self._find(name, self.indent)

    def declare(self, name: str, value: Json, indent: float | None) -> None:
        """Create a variable, or overwrite the one of that name that is visible from there."""
        place = 0 if indent is None else indent
        scope = self._find(name, place)
        if scope is None:
            scope = self._scopes.setdefault(place, {})
        scope[name] = value

    def drop(self, indent: float) -> None:
        """Forget everything that was declared at an indent or deeper."""
        if self._scopes:
            self._scopes = {place: scope for place, scope in self._scopes.items() if place < indent}

    def _find(self, name: str, indent: float) -> dict[str, Json] | None:
        places = sorted((place for place in self._scopes if 0 <= place <= indent), reverse=True)
        return next((self._scopes[place] for place in places if name in self._scopes[place]), None)
