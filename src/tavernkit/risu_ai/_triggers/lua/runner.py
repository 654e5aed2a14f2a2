"""Calls Lua scripts from trigger runs, edit passes and buttons."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from tavernkit._text.js_values import json_parse, json_stringify
from tavernkit._values import Json, JsonObject
from tavernkit.risu_ai._triggers.limits import TriggerFailedError
from tavernkit.risu_ai._triggers.lua.api import EDIT_DISPLAY, LuaCall
from tavernkit.risu_ai._triggers.lua.sandbox import LuaSandbox, LuaSandboxes
from tavernkit.risu_ai._triggers.program import OwnedTrigger, all_triggers

if TYPE_CHECKING:
    from tavernkit.risu_ai._triggers.run import Run
    from tavernkit.risu_ai._triggers.world import World

HANDLERS: Final = {"start": "onStart", "output": "onOutput", "input": "onInput"}
"""The functions that modes call; a manual name is the name of a function itself."""

EDIT_KINDS: Final = ("editRequest", EDIT_DISPLAY, "editInput", "editOutput")
BUTTON: Final = "onButtonClick"


class LuaRunner:
    """Calls scripts for one world."""

    def __init__(self, sandboxes: LuaSandboxes, world: World) -> None:
        self._sandboxes = sandboxes
        self._world = world

    def run_effect(self, run: Run, code: str) -> bool:
        """Call the function of a mode or of a manual name; return True to stop sending."""
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

        If a script cannot be loaded, the whole pass has no effect: the changes of earlier ones are lost, too.
        Conditions and types of triggers do not count here.
        """
        if kind not in EDIT_KINDS:
            return data
        edited, about = data, json_stringify(meta)
        for _, code in self._scripts():
            text = json_stringify(edited)
            _, value = self._call(kind, code, False, None, lambda e, c, t=text: e.listen(c, kind, t, about))
            # Only nil leaves the text as it was: false, a number or an empty text replaces it.
            new = json_parse(value) if isinstance(value, str) else None
            edited = edited if new is None else new
        return edited

    def click(self, data: str) -> tuple[bool, Json, bool]:
        """Call button handlers; returns whether there are scripts, the last result, and whether to stop sending."""
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
        work: Callable[[LuaSandbox, LuaCall], Json],
    ) -> tuple[LuaCall, Json]:
        """Call into the sandbox of a mode.

        An error of the script ends only this call; one while loading, or no time left for this run, is raised.
        """
        world = self._world
        world.budget.check_time()
        with self._sandboxes.lock:
            sandbox, new = self._sandboxes.sandbox(mode, code)
            call = LuaCall(
                world=world, sandbox=sandbox, mode=mode, key=self._sandboxes.new_key(), low_level=low_level, run=run
            )
            if new:
                self._load(sandbox, call)
            elif sandbox.failed is not None:
                world.event("skipped", sandbox.failed)
                world.warn(f"{world.where}has a Lua script that is not run: {sandbox.failed}")
                return call, None
            if mode == EDIT_DISPLAY:
                sandbox.remember_display_key(call.key)
            try:
                return call, work(sandbox, call)
            except TriggerFailedError as failure:
                self._report(failure)
            finally:
                self._forget(sandbox, mode)
        return call, None

    def _load(self, sandbox: LuaSandbox, call: LuaCall) -> None:
        try:
            sandbox.load(call)
        except TriggerFailedError as failure:
            sandbox.failed = sandbox.failed or f"it could not be loaded: {failure}"
            self._sandboxes.close(sandbox)
            raise

    def _forget(self, sandbox: LuaSandbox, mode: str) -> None:
        """Restart a script that was stopped: its state is unknown."""
        if sandbox.failed is not None:
            self._sandboxes.drop(mode, sandbox)
        self._sandboxes.free_memory(self._world.warn)

    def _report(self, failure: TriggerFailedError) -> None:
        world = self._world
        world.lua_errors += 1
        world.event("lua_error", str(failure))
        world.warn(f"{world.where}failed in its Lua script: {failure}")
