"""One call of a script, as its functions see it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tavernkit.risu_ai.triggers.lua.registry import Access
from tavernkit.risu_ai.triggers.variables import Value
from tavernkit.text.js_values import UNDEFINED, to_string
from tavernkit.values import Json

if TYPE_CHECKING:
    from tavernkit.risu_ai.objects import RisuMessage
    from tavernkit.risu_ai.triggers.lua.engines import LuaEngine
    from tavernkit.risu_ai.triggers.run import Run
    from tavernkit.risu_ai.triggers.world import World

EDIT_DISPLAY = "editDisplay"


@dataclass(slots=True, kw_only=True)
class LuaCall:
    """What a call may do and what it works on: the copies of a run, or (edit passes, buttons) what is stored."""

    world: World
    engine: LuaEngine
    mode: str
    key: str
    low_level: bool
    run: Run | None = None
    stop_sending: bool = False
    loading: bool = False

    def allows(self, access: Access, key: Json) -> bool:
        """Whether a key opens a function now."""
        if access is Access.NONE:
            return True
        if access is Access.DISPLAY and isinstance(key, str) and key in self.engine.display_keys:
            return True
        if self.loading or self.mode == EDIT_DISPLAY:
            return False
        return key == self.key and (access is not Access.LOW or self.low_level)

    @property
    def made_engine(self) -> bool:
        """Whether the functions of the engine know this call: RisuAI's know only the one that made the engine."""
        return self.engine.made_by == self.key or self.engine.fix_stale_closures

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
        """An argument as a text that is about to be stored; nothing is empty."""
        return self.world.budget.text("" if value is None else to_string(value))
