"""Variables of a chat: what macros and scripts read and write."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Protocol, TypeGuard, runtime_checkable

from tavernkit._arguments import require
from tavernkit._dataclass import dataclass
from tavernkit._values import FrozenJson, Json, JsonObject, freeze, freeze_object, is_mapping, is_sequence, thaw

LOCAL = "local"
GLOBAL = "global"


@runtime_checkable
class VariablesStore(Protocol):
    """Named values by scope: one store per chat, owned by the application.

    Builds only read it; changes are written when the reply has arrived.
    """

    @property
    def cache_version(self) -> int | None:
        """Increases with every change; None if the store does not count changes."""
        ...

    def get(self, name: str, scope: str = LOCAL) -> Json:
        """Return a value, or None if there is none.

        Args:
            name: The variable.
            scope: ``local`` for the chat's variables, ``global`` for those of all chats.
        """
        ...

    def set(self, name: str, value: Json, scope: str = LOCAL) -> None:
        """Store a value.

        Args:
            name: The variable.
            value: Its value.
            scope: ``local`` for the chat's variables, ``global`` for those of all chats.
        """
        ...

    def has(self, name: str, scope: str = LOCAL) -> bool:
        """Return True if the name is set to any value.

        Args:
            name: The variable.
            scope: ``local`` for the chat's variables, ``global`` for those of all chats.
        """
        ...

    def delete(self, name: str, scope: str = LOCAL) -> None:
        """Remove a value if it exists.

        Args:
            name: The variable.
            scope: ``local`` for the chat's variables, ``global`` for those of all chats.
        """
        ...

    def add(self, name: str, value: Json, scope: str = LOCAL) -> Json:
        """Add to a value: numbers are summed, anything else is joined as text. Returns the new value.

        Args:
            name: The variable.
            value: What to add.
            scope: ``local`` for the chat's variables, ``global`` for those of all chats.
        """
        ...


class InMemoryVariablesStore:
    """A ``VariablesStore`` in plain dictionaries; thread-safe, and saved with ``to_dict()``.

    >>> store = InMemoryVariablesStore({"local": {"gold": 3}})
    >>> store.add("gold", 4)
    7
    >>> store.to_dict()
    {'local': {'gold': 7}}
    """

    def __init__(self, values: Mapping[str, Mapping[str, FrozenJson]] | None = None) -> None:
        require("values", values, Mapping[str, Mapping[str, object]] | None, "a mapping such as {'local': {'gold': 3}}")
        self._scopes: dict[str, dict[str, Json]] = {}
        self._version = 0
        self._lock = threading.RLock()
        for scope, names in (values or {}).items():
            self._scopes[_scope_key(scope)] = {str(name): thaw(value) for name, value in names.items()}

    @classmethod
    def from_dict(cls, values: Mapping[str, object]) -> InMemoryVariablesStore:
        """Read the output of ``to_dict()``; parts that are not mappings are ignored."""
        store = cls()
        for scope, names in values.items():
            if is_mapping(names):
                store._scopes[_scope_key(scope)] = {str(name): thaw(value) for name, value in names.items()}
        return store

    def to_dict(self) -> dict[str, JsonObject]:
        """All scopes and their values, copied, ready for ``json``."""
        with self._lock:
            return {
                scope: {name: thaw(value) for name, value in names.items()} for scope, names in self._scopes.items()
            }

    def __getstate__(self) -> dict[str, JsonObject]:
        return self.to_dict()

    def __setstate__(self, state: dict[str, JsonObject]) -> None:
        self.__init__(state)

    def copy(self) -> InMemoryVariablesStore:
        """An independent store with the same values."""
        return InMemoryVariablesStore(self.to_dict())

    @property
    def cache_version(self) -> int | None:
        """Grows with every change."""
        return self._version

    def get(self, name: str, scope: str = LOCAL) -> Json:
        """Return a value, or None if there is none.

        Args:
            name: The variable.
            scope: ``local`` for the chat's variables, ``global`` for those of all chats.
        """
        names = self._scopes.get(scope) or self._scopes.get(_scope_key(scope))
        key = name if type(name) is str else _name_key(name)
        return None if names is None else names.get(key)

    def set(self, name: str, value: Json, scope: str = LOCAL) -> None:
        """Store a value.

        Args:
            name: The variable.
            value: Its value.
            scope: ``local`` for the chat's variables, ``global`` for those of all chats.
        """
        key, scope_key = _name_key(name), _scope_key(scope)
        with self._lock:
            self._scopes.setdefault(scope_key, {})[key] = value
            self._version += 1

    def has(self, name: str, scope: str = LOCAL) -> bool:
        """Return True if the name is set to any value.

        Args:
            name: The variable.
            scope: ``local`` for the chat's variables, ``global`` for those of all chats.
        """
        return _name_key(name) in self._scopes.get(_scope_key(scope), {})

    def delete(self, name: str, scope: str = LOCAL) -> None:
        """Remove a value if it exists.

        Args:
            name: The variable.
            scope: ``local`` for the chat's variables, ``global`` for those of all chats.
        """
        key, scope_key = _name_key(name), _scope_key(scope)
        with self._lock:
            self._scopes.get(scope_key, {}).pop(key, None)
            self._version += 1

    def add(self, name: str, value: Json, scope: str = LOCAL) -> Json:
        """Add to a value: numbers are summed, anything else is joined as text. Returns the new value.

        Args:
            name: The variable.
            value: What to add.
            scope: ``local`` for the chat's variables, ``global`` for those of all chats.
        """
        with self._lock:
            old = self.get(name, scope)
            new = value if old is None else _sum(old, value)
            self.set(name, new, scope)
            return new


@dataclass(frozen=True, slots=True)
class VariableChanges:
    """Changes of variables by a build or a turn: new values and deleted names."""

    values: Mapping[str, Mapping[str, FrozenJson]] = field(default_factory=dict[str, Mapping[str, FrozenJson]])
    """New values by scope and name."""
    deleted: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    """Names that were deleted, by scope."""

    def __bool__(self) -> bool:
        return bool(self.values or self.deleted)

    def to_dict(self) -> JsonObject:
        """The changes, ready for ``json``."""
        return {
            "values": {scope: thaw(values) for scope, values in self.values.items()},
            "deleted": {scope: [*sorted(names)] for scope, names in self.deleted.items()},
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, object]) -> VariableChanges:
        """Read the output of ``to_dict()``."""
        values, deleted = data.get("values"), data.get("deleted")
        kept: dict[str, Mapping[str, FrozenJson]] = {}
        gone: dict[str, frozenset[str]] = {}
        if is_mapping(values):
            kept = {scope: freeze_object(each) for scope, each in values.items() if is_mapping(each)}
        if is_mapping(deleted):
            gone = {scope: frozenset(map(str, names)) for scope, names in deleted.items() if is_sequence(names)}
        return cls(kept, gone)

    def apply(self, store: VariablesStore) -> None:
        """Write the changes to a store."""
        for scope, names in self.deleted.items():
            for name in sorted(names):
                store.delete(name, scope)
        for scope, values in self.values.items():
            for name, value in values.items():
                store.set(name, thaw(value), scope)


class VariablesOverlay:
    """A ``VariablesStore`` that reads from another store and keeps writes to itself.

    A build works on an overlay: nothing changes until the reply has arrived.

    Args:
        base: The store below.
        keep: Called with the name, the old and the new value; the value is written only if it returns True.
    """

    def __init__(self, base: VariablesStore, keep: Callable[[str, Json, Json], bool] | None = None) -> None:
        self._base = base
        self._keep = keep
        self._written: dict[tuple[str, str], Json] = {}
        self._deleted: set[tuple[str, str]] = set()
        self._read: dict[tuple[str, str], Json] = {}
        self._found: dict[tuple[str, str], bool] = {}
        self._version = 0

    def as_read(self) -> VariablesOverlay:
        """Return the store below with every value as it was when first read."""
        twin = VariablesOverlay(self._base)
        for (scope, name), value in self._read.items():
            if value is None and not self._found.get((_scope_key(scope), _name_key(name))):
                twin.delete(name, scope)
            else:
                twin.set(name, value, scope)
        for (scope, name), found in self._found.items():
            if not found:
                twin.delete(name, scope)
        return twin

    @property
    def cache_version(self) -> int | None:
        """Grows with every change; None when the store below does not count."""
        below = self._base.cache_version
        return None if below is None else below + self._version

    def get(self, name: str, scope: str = LOCAL) -> Json:
        """Return a value, or None if there is none.

        Args:
            name: The variable.
            scope: ``local`` for the chat's variables, ``global`` for those of all chats.
        """
        if self._version:
            key = (_scope_key(scope), _name_key(name))
            if key in self._written:
                return self._written[key]
            if key in self._deleted:
                return None
        value = self._base.get(name, scope)
        self._read.setdefault((scope, name), value)
        return value

    def set(self, name: str, value: Json, scope: str = LOCAL) -> None:
        """Keep a value.

        Args:
            name: The variable.
            value: Its value.
            scope: ``local`` for the chat's variables, ``global`` for those of all chats.
        """
        key = (_scope_key(scope), _name_key(name))
        if self._keep is not None and not self._keep(name, self._written.get(key), value):
            return
        self._deleted.discard(key)
        self._written[key] = value
        self._version += 1

    def has(self, name: str, scope: str = LOCAL) -> bool:
        """Return True if the name is set to any value.

        Args:
            name: The variable.
            scope: ``local`` for the chat's variables, ``global`` for those of all chats.
        """
        key = (_scope_key(scope), _name_key(name))
        if key in self._written or key in self._deleted:
            return key in self._written
        found = self._base.has(name, scope)
        self._found.setdefault(key, found)
        return found

    def delete(self, name: str, scope: str = LOCAL) -> None:
        """Forget a value.

        Args:
            name: The variable.
            scope: ``local`` for the chat's variables, ``global`` for those of all chats.
        """
        key = (_scope_key(scope), _name_key(name))
        self._written.pop(key, None)
        self._deleted.add(key)
        self._version += 1

    def add(self, name: str, value: Json, scope: str = LOCAL) -> Json:
        """Add to a value: numbers are summed, anything else is joined as text. Returns the new value.

        Args:
            name: The variable.
            value: What to add.
            scope: ``local`` for the chat's variables, ``global`` for those of all chats.
        """
        old = self.get(name, scope)
        new = value if old is None else _sum(old, value)
        self.set(name, new, scope)
        return new

    def changes(self) -> VariableChanges:
        """Return everything that was written and deleted."""
        values: dict[str, dict[str, FrozenJson]] = {}
        for (scope, name), value in self._written.items():
            values.setdefault(scope, {})[name] = freeze(value)
        deleted: dict[str, set[str]] = {}
        for scope, name in self._deleted:
            deleted.setdefault(scope, set()).add(name)
        return VariableChanges(values, {scope: frozenset(names) for scope, names in deleted.items()})


def _scope_key(scope: str) -> str:
    return scope.strip().lower()


def _name_key(name: str) -> str:
    return str(name)


def _sum(old: Json, value: Json) -> Json:
    if _is_number(old) and _is_number(value):
        return old + value
    return f"{_text(old)}{_text(value)}"


def _is_number(value: Json) -> TypeGuard[int | float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _text(value: Json) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)
