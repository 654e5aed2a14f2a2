"""The variables as one expansion sees them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tavernkit.silly_tavern.macros.call import OutOfRoomError
from tavernkit.silly_tavern.macros.limits import FREE_VARIABLE_CHARS, MAX_VARIABLE_CHARS
from tavernkit.stores.variables import LOCAL, VariablesStore
from tavernkit.values import Json, is_mapping, is_sequence

if TYPE_CHECKING:
    from tavernkit.silly_tavern.macros.run import Expansion


class MeteredVariables:
    """A store that limits how much of long values one expansion may read.

    Every macro that touches a variable reads, parses or copies its value as a whole, and a text may hold very many.
    """

    __slots__ = ("_run", "_store")

    def __init__(self, store: VariablesStore, run: Expansion) -> None:
        self._store = store
        self._run = run

    @property
    def cache_version(self) -> int | None:
        """The version of the store."""
        return self._store.cache_version

    def get(self, name: str, scope: str = LOCAL) -> Json:
        """Read a variable, or raise :class:`OutOfRoomError`."""
        value = self._store.get(name, scope)
        if (isinstance(value, str) and len(value) <= FREE_VARIABLE_CHARS) or value is None:
            return value
        budget = self._run.budget
        budget.variables += _size(value)
        if budget.variables <= MAX_VARIABLE_CHARS:
            return value
        message = f"the macros of one expansion read more than {MAX_VARIABLE_CHARS} characters of variables"
        self._run.report_limit("variables", f"{message}; the rest stays as text")
        raise OutOfRoomError(message)

    def set(self, name: str, value: Json, scope: str = LOCAL) -> None:
        """Write a variable."""
        self._store.set(name, value, scope)

    def has(self, name: str, scope: str = LOCAL) -> bool:
        """Return True if a variable is set."""
        return self._store.has(name, scope)

    def delete(self, name: str, scope: str = LOCAL) -> None:
        """Remove a variable."""
        self._store.delete(name, scope)

    def add(self, name: str, value: Json, scope: str = LOCAL) -> Json:
        """Add to a variable."""
        return self._store.add(name, value, scope)


def _size(value: object) -> int:
    """About how many characters a value has as text."""
    size, waiting = 0, [value]
    while waiting:
        each = waiting.pop()
        size += len(each) if isinstance(each, str) else 4
        if is_mapping(each):
            waiting += each.values()
        elif is_sequence(each):
            waiting += each
    return size
