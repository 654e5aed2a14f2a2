"""The functions that scripts may call, and the data of a call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, TypeAlias

from tavernkit._dataclass import dataclass
from tavernkit._text.js_values import UNDEFINED, to_string
from tavernkit._values import Json
from tavernkit.risu_ai._triggers.variables import Value

if TYPE_CHECKING:
    from tavernkit.risu_ai._objects import RisuMessage
    from tavernkit.risu_ai._triggers.lua.sandbox import LuaSandbox
    from tavernkit.risu_ai._triggers.run import Run
    from tavernkit.risu_ai._triggers.world import World

Kind = Literal["value", "void", "promise", "strict_promise", "table_promise"]
"""What a script gets: a value, nothing at all, or a promise (of a table, written as JSON). With a wrong key a
``strict_promise`` is nil, the other promises are promises of nil."""

EDIT_DISPLAY = "editDisplay"

LuaFunction: TypeAlias = "Callable[[LuaCall, list[Json]], object]"


class Access(Enum):
    """Which key a function needs."""

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
    """Functions by name: modules fill it with ``function()``."""

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
    """Return an argument, or None if there are fewer."""
    return arguments[index] if index < len(arguments) else None


def passed(arguments: list[Json], index: int) -> Value:
    """Return an argument as JavaScript gets it: ``nil`` is null, a missing one is undefined."""
    return arguments[index] if index < len(arguments) else UNDEFINED


@dataclass(slots=True, kw_only=True)
class LuaCall:
    """The rights and the data of a call: the copies of a run, or (edit passes, buttons) the stored state."""

    world: World
    sandbox: LuaSandbox
    mode: str
    key: str
    low_level: bool
    run: Run | None = None
    stop_sending: bool = False
    loading: bool = False

    def allows(self, access: Access, key: Json) -> bool:
        """Return True if a key allows a function now."""
        if access is Access.NONE:
            return True
        if access is Access.DISPLAY and isinstance(key, str) and key in self.sandbox.display_keys:
            return True
        if self.loading or self.mode == EDIT_DISPLAY:
            return False
        return key == self.key and (access is not Access.LOW or self.low_level)

    @property
    def made_sandbox(self) -> bool:
        """True if the functions of the sandbox know this call: RisuAI's know only the one that made the sandbox."""
        return self.sandbox.made_by == self.key or self.sandbox.fix_stale_closures

    @property
    def messages(self) -> list[RisuMessage]:
        """The messages, copied."""
        return list(self.world.chat.messages if self.run is None else self.run.messages)

    def set_messages(self, messages: list[RisuMessage]) -> None:
        """Replace the messages."""
        world = self.world
        world.budget.count("messages", len(messages), world.budget.limits.messages)
        world.event("message", "script", len(messages))
        if self.run is None:
            world.set_messages(tuple(messages))
        else:
            self.run.messages = messages

    def get_variable(self, name: str) -> str:
        """Read a chat variable."""
        return self.world.context.chat_variable(name) if self.run is None else self.run.get(name)

    def set_variable(self, name: str, value: Value) -> None:
        """Write a chat variable."""
        if self.run is not None:
            self.run.set(name, value)
            return
        if isinstance(value, str):
            self.world.budget.text(value)
        self.world.variables.set(name, value)
        self.world.event("variable", name, None if value is UNDEFINED else value)

    def text(self, value: Json) -> str:
        """Return an argument as a text to store; None becomes empty."""
        return self.world.budget.text("" if value is None else to_string(value))
