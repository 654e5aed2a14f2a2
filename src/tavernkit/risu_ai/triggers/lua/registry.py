"""The table of functions that scripts can call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, TypeAlias

from tavernkit.risu_ai.triggers.variables import Value
from tavernkit.text.js_values import UNDEFINED
from tavernkit.values import Json

if TYPE_CHECKING:
    from tavernkit.risu_ai.triggers.lua.call import LuaCall

Kind = Literal["value", "void", "promise", "strict_promise", "table_promise"]
"""What a script gets: a value, nothing at all, or a promise (of a table, written as JSON). With a wrong key a
``strict_promise`` is nil, the other promises are promises of nil."""

LuaFunction: TypeAlias = "Callable[[LuaCall, list[Json]], object]"


class Access(Enum):
    """Which key a function asks for."""

    NONE = "none"
    SAFE = "safe"
    DISPLAY = "display"
    LOW = "low"


@dataclass(frozen=True, slots=True)
class LuaFunctionEntry:
    """A function of the table. ``keyed`` functions have the key as their first argument, which they do not see."""

    function: LuaFunction
    access: Access
    kind: Kind
    keyed: bool


class LuaFunctionTable:
    """Functions by name: modules fill it with :meth:`function`."""

    def __init__(self) -> None:
        self._entries: dict[str, LuaFunctionEntry] = {}

    def function(
        self, name: str, *, access: Access = Access.NONE, kind: Kind = "value", keyed: bool = True
    ) -> Callable[[LuaFunction], LuaFunction]:
        """Register a function."""

        def register(function: LuaFunction) -> LuaFunction:
            self._entries[name] = LuaFunctionEntry(function, access, kind, keyed)
            return function

        return register

    @property
    def entries(self) -> Mapping[str, LuaFunctionEntry]:
        """All functions of the table."""
        return MappingProxyType(self._entries)


def argument(arguments: list[Json], index: int) -> Json:
    """An argument, or nothing if there are fewer."""
    return arguments[index] if index < len(arguments) else None


def passed(arguments: list[Json], index: int) -> Value:
    """An argument as JavaScript gets it: ``nil`` is its null, one that is missing is undefined."""
    return arguments[index] if index < len(arguments) else UNDEFINED
