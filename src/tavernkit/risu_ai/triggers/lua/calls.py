"""Calls of Lua scripts: from trigger runs, edit passes and buttons."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from tavernkit.risu_ai.triggers.lua.call import EDIT_DISPLAY, LuaCall
from tavernkit.risu_ai.triggers.lua.engines import LuaEngine, LuaEngines
from tavernkit.risu_ai.triggers.selection import OwnedTrigger, all_triggers
from tavernkit.risu_ai.triggers.signals import TriggerFailedError
from tavernkit.text.js_values import json_parse, json_stringify
from tavernkit.values import Json, JsonObject

if TYPE_CHECKING:
    from tavernkit.risu_ai.triggers.run import Run
    from tavernkit.risu_ai.triggers.world import World

HANDLERS: Final = {"start": "onStart", "output": "onOutput", "input": "onInput"}
"""The functions that modes call; a manual name is the name of a function itself."""

EDIT_KINDS: Final = ("editRequest", EDIT_DISPLAY, "editInput", "editOutput")
BUTTON: Final = "onButtonClick"


class LuaCalls:
    """Calls scripts for one world."""

    def __init__(self, engines: LuaEngines, world: World) -> None:
        self._engines = engines
        self._world = world

    def run_effect(self, run: Run, code: str) -> bool:
        """Call the function of a mode or of a manual name; tells whether sending is to stop."""
        mode = run.arguments.name or run.mode
        if mode in EDIT_KINDS:
            call, _ = self._call(mode, code, run.low_level, run, lambda e, c: e.listen(c, mode, '""', "{}"))
            return call.stop_sending
        arguments = ("",) if mode == BUTTON else ()
        name = HANDLERS.get(mode, mode)
        call, value = self._call(mode, code, run.low_level, run, lambda e, c: e.handle(c, name, *arguments))
        return call.stop_sending or value is False

    def edit(self, kind: str, data: Json, meta: JsonObject) -> Json:
        """Let the listeners of all scripts edit something, one after the other.

        A script that cannot be loaded makes the whole pass void.
        """
        if kind not in EDIT_KINDS:
            return data
        edited, about = data, json_stringify(meta)
        for _, code in self._scripts():
            text = json_stringify(edited)
            _, value = self._call(kind, code, False, None, lambda e, c, t=text: e.listen(c, kind, t, about))
            new = json_parse(value) if isinstance(value, str) else None
            edited = edited if new is None else new
        return edited

    def click(self, data: str) -> tuple[bool, Json, bool]:
        """Call button handlers; returns whether there are scripts, the last result, and whether sending is to stop."""
        handled, value, stop = False, None, False
        for owned, code in self._scripts():
            call, value = self._call(BUTTON, code, owned.low_level, None, lambda e, c: e.handle(c, BUTTON, data))
            handled, stop = True, call.stop_sending or value is False
        return handled, value, stop

    def _scripts(self) -> Iterator[tuple[OwnedTrigger, str]]:
        """Scripts of the selected character and of modules; a group has none of its own."""
        selected = self._world.context.character
        character = None if selected is None or selected.is_group else self._world.character
        for owned in all_triggers(self._world.context, character):
            code = owned.trigger.lua_code
            if code is not None:
                self._world.trigger, self._world.effect = owned.trigger.comment, "triggerlua"
                yield owned, code

    def _call(
        self,
        mode: str,
        code: str,
        low_level: bool,
        run: Run | None,
        work: Callable[[LuaEngine, LuaCall], Json],
    ) -> tuple[LuaCall, Json]:
        """Call into the engine of a mode. An error of the script ends only this call; one while loading is raised."""
        world = self._world
        with self._engines.lock:
            engine, new = self._engines.engine(mode, code)
            call = LuaCall(
                world=world, engine=engine, mode=mode, key=self._engines.new_key(mode), low_level=low_level, run=run
            )
            if new:
                self._load(engine, call)
            elif engine.failed is not None:
                world.event("skipped", engine.failed)
                world.warn(f"{world.where}has a Lua script that is not run: {engine.failed}")
                return call, None
            if mode == EDIT_DISPLAY:
                engine.remember_display_key(call.key)
            try:
                return call, work(engine, call)
            except TriggerFailedError as failure:
                self._report(failure)
            finally:
                self._forget(engine, mode)
        return call, None

    def _load(self, engine: LuaEngine, call: LuaCall) -> None:
        try:
            engine.load(call)
        except TriggerFailedError as failure:
            engine.failed = engine.failed or f"it could not be loaded: {failure}"
            self._engines.close(engine)
            raise

    def _forget(self, engine: LuaEngine, mode: str) -> None:
        """Start a script that was stopped anew next time: nobody knows what state it is in."""
        if engine.failed is not None:
            self._engines.drop(mode, engine)
        self._engines.free_memory(self._world.warn)

    def _report(self, failure: TriggerFailedError) -> None:
        world = self._world
        world.lua_errors += 1
        world.event("lua_error", str(failure))
        world.warn(f"{world.where}failed in its Lua script: {failure}")
