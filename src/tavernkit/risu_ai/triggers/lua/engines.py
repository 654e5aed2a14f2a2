"""Lua engines: one a mode, kept while its code stays the same."""

from __future__ import annotations

import hashlib
import threading
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tavernkit.errors import TavernKitError
from tavernkit.risu_ai.triggers.limits import (
    LUA_ENGINES,
    REQUEST_WINDOW_MILLISECONDS,
    REQUESTS_PER_WINDOW,
)
from tavernkit.risu_ai.triggers.lua.functions import standard_functions
from tavernkit.risu_ai.triggers.lua.machine import DENIED, Machine
from tavernkit.risu_ai.triggers.lua.values import LuaValue, to_bytes, to_lua
from tavernkit.risu_ai.triggers.signals import TriggerFailedError
from tavernkit.values import Json

if TYPE_CHECKING:
    from tavernkit.risu_ai.triggers.lua.call import LuaCall

OUT_OF_MEMORY = "it used more memory than it may"
NOT_ENOUGH_MEMORY = "not enough memory"
_MAX_DISPLAY_KEYS = 1000
_MAX_MESSAGE = 500


class LuaStoppedError(TriggerFailedError):
    """A script used up its instructions, its time or its memory."""

    def __init__(self, message: str) -> None:
        super().__init__(message, kind="Error")


class RequestWindow:
    """Counts the web requests of scripts, refused ones included."""

    def __init__(self) -> None:
        self._started = 0.0
        self._count = 0

    def allow(self, now: datetime) -> bool:
        """Count a request; tells whether it may be made."""
        moment = (now if now.tzinfo is not None else now.replace(tzinfo=UTC)).timestamp() * 1000
        if abs(moment - self._started) > REQUEST_WINDOW_MILLISECONDS:
            self._started, self._count = moment, 0
        self._count += 1
        return self._count <= REQUESTS_PER_WINDOW + 1


class LuaEngine:
    """One Lua state with one script in it.

    ``made_by`` is the key of the call that made it; ``failed`` says why it is of no use any more.
    """

    def __init__(
        self, code: str, *, fix_stale_closures: bool, requests: RequestWindow, display_keys: OrderedDict[str, None]
    ) -> None:
        self.code = code
        self.fix_stale_closures = fix_stale_closures
        self.requests = requests
        self.display_keys = display_keys
        self.made_by = ""
        self.character_name = ""
        self.lock = threading.RLock()
        self.failed: str | None = None
        self._machine: Machine | None = None
        self._calls: list[LuaCall] = []
        self._problem: bytes | None = None
        self._crash: BaseException | None = None
        self._deadline = self._waited = 0.0

    def load(self, call: LuaCall) -> None:
        """Start Lua and run the script's own code once; its functions cannot change anything then."""
        limits = call.world.budget.limits
        self.made_by, self.character_name = call.key, call.world.character.name
        if len(self.code) > limits.lua_code:
            raise TriggerFailedError(f"the script has more than {limits.lua_code} characters", kind="Error")
        machine = self._machine = Machine(self._outside(), limits.lua_memory)
        call.loading = True
        try:
            self._guarded(call, lambda: machine.run_script(to_bytes(self.code)))
        finally:
            call.loading = False

    def handle(self, call: LuaCall, name: str, *arguments: str) -> Json:
        """Call a global function of the script; one that is not there does nothing."""
        machine = self._machine
        if machine is None:
            return None
        texts = [to_bytes(each) for each in (name, call.key, *arguments)]
        return self._guarded(call, lambda: machine.handle(*texts))

    def listen(self, call: LuaCall, kind: str, value: str, meta: str) -> Json:
        """Let the listeners of a kind edit a JSON text."""
        machine = self._machine
        if machine is None:
            return None
        texts = [to_bytes(each) for each in (kind, call.key, value, meta)]
        return self._guarded(call, lambda: machine.listen(*texts))

    def remember_display_key(self, key: str) -> None:
        """Keys of display passes stay valid, in every engine."""
        self.display_keys[key] = None
        if len(self.display_keys) > _MAX_DISPLAY_KEYS:
            self.display_keys.popitem(last=False)

    def _guarded(self, call: LuaCall, work: Callable[[], object]) -> Json:
        """Run Lua with a fresh budget; what goes wrong is one of our errors afterwards."""
        machine, budget = self._machine, call.world.budget
        if machine is None:
            return None
        self._calls.append(call)
        self._deadline, self._waited = time.monotonic() + budget.limits.lua_seconds, budget.waited
        try:
            if not machine.has_room():
                raise self._stopped(OUT_OF_MEMORY)
            machine.begin(budget.limits.lua_instructions, budget.limits.lua_seconds)
            return machine.read(work())
        except machine.errors as error:
            raise self._explained(machine, error) from None
        finally:
            self._calls.pop()
            crash, self._crash = self._crash, None
            if crash is not None:
                raise crash

    def _explained(self, machine: Machine, error: Exception) -> TriggerFailedError:
        if isinstance(error, MemoryError) or _message(error) == NOT_ENOUGH_MEMORY or not machine.has_room():
            return self._stopped(OUT_OF_MEMORY)
        if not machine.is_spent():
            return TriggerFailedError(_message(error), kind="Error")
        limits = self._calls[-1].world.budget.limits
        most = f"{limits.lua_instructions:,} instructions or {limits.lua_seconds:g} seconds"
        return self._stopped(f"it took more than {most}")

    def _stopped(self, why: str) -> LuaStoppedError:
        self.failed = why
        return LuaStoppedError(f"the script was stopped: {why}")

    # What Lua calls

    def _outside(self) -> tuple[Callable[..., object], ...]:
        return self._over_time, self._now, self._utc_offset, self._draw, self._call, self._state

    def _over_time(self) -> bool:
        waited = self._calls[-1].world.budget.waited - self._waited
        return time.monotonic() > self._deadline + waited

    def _clock(self) -> datetime:
        now = self._calls[-1].world.context.clock()
        return now if now.tzinfo is not None else now.replace(tzinfo=UTC)

    def _now(self) -> int:
        return int(self._clock().timestamp())

    def _utc_offset(self) -> int:
        offset = self._clock().astimezone(self._calls[-1].world.context.device.timezone).utcoffset()
        return 0 if offset is None else int(offset.total_seconds())

    def _draw(self) -> float:
        return float(self._calls[-1].world.context.random())

    def _call(self, name: bytes, *arguments: object) -> LuaValue:
        """Call a function of ours. No Python error may reach the script: it would be an object in its hands."""
        self._problem = None
        try:
            return self._dispatch(name.decode(), arguments)
        except (TavernKitError, TriggerFailedError, RecursionError) as error:
            self._problem = to_bytes(str(error)) or b"error"
        except BaseException as error:  # noqa: BLE001  # it is raised again as soon as Lua has ended
            self._crash = error
            self._problem = b"the application failed"
        return None

    def _dispatch(self, name: str, arguments: tuple[object, ...]) -> LuaValue:
        call, machine = self._calls[-1], self._machine
        entry = standard_functions()[name]
        call.world.budget.step()
        values = [machine.read(each) for each in arguments] if machine is not None else []
        key = values.pop(0) if entry.keyed and values else None
        if not call.allows(entry.access, key):
            self._problem = DENIED
            return None
        return to_lua(entry.function(call, values))

    def _state(self) -> bytes | None:
        return self._problem


def _message(error: Exception) -> str:
    first = error.args[0] if error.args else ""
    text = first.decode("utf-8", "replace") if isinstance(first, bytes) else str(first)
    return text[:_MAX_MESSAGE]


class LuaEngines:
    """The engines of one application, shared by all its scripts: another code in the same mode takes the place."""

    def __init__(self, *, fix_stale_closures: bool = False) -> None:
        self._fix_stale_closures = fix_stale_closures
        self._requests = RequestWindow()
        self._display_keys: OrderedDict[str, None] = OrderedDict()
        self._engines: OrderedDict[str, LuaEngine] = OrderedDict()
        self._lock = threading.Lock()
        self._count = 0

    def engine(self, mode: str, code: str) -> tuple[LuaEngine, bool]:
        """The engine of a mode with that code in it, and whether it is new."""
        with self._lock:
            known = self._engines.get(mode)
            if known is not None and known.code == code:
                self._engines.move_to_end(mode)
                return known, False
            made = LuaEngine(
                code,
                fix_stale_closures=self._fix_stale_closures,
                requests=self._requests,
                display_keys=self._display_keys,
            )
            self._engines[mode] = made
            self._engines.move_to_end(mode)
            if len(self._engines) > LUA_ENGINES:
                self._engines.popitem(last=False)
            return made, True

    def drop(self, mode: str, engine: LuaEngine) -> None:
        """Forget an engine; the next call makes a new one."""
        with self._lock:
            if self._engines.get(mode) is engine:
                del self._engines[mode]

    def new_key(self, mode: str) -> str:
        """A key for one call. It only has to differ from all others: scripts are kept apart by their engines."""
        with self._lock:
            self._count += 1
            digest = hashlib.sha256(f"{self._count}:{mode}".encode("utf-8", "replace")).digest()
        return str(uuid.UUID(bytes=digest[:16], version=4))
