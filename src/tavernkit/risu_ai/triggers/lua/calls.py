"""Calls of Lua scripts: from trigger runs, edit passes and buttons."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tavernkit.risu_ai.triggers.lua.engines import LuaEngines
from tavernkit.values import Json, JsonObject

if TYPE_CHECKING:
    from tavernkit.risu_ai.triggers.run import Run
    from tavernkit.risu_ai.triggers.world import World


class LuaCalls:
    """Calls scripts for one world."""

    def __init__(self, engines: LuaEngines, world: World) -> None:
        self._engines = engines
        self._world = world

    def run_effect(self, run: Run, code: str) -> bool:
        """Call the function of a mode; tells whether sending is to stop."""
        self._world.warn(f"{self._world.where}is a Lua script: it is not run")
        return False

    def edit(self, kind: str, data: Json, meta: JsonObject) -> Json:
        """Let listeners edit something."""
        return data

    def click(self, data: str) -> tuple[bool, Json, bool]:
        """Call button handlers; returns whether there are any, their result, and whether sending is to stop."""
        return False, None, False
