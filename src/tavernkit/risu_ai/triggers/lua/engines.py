"""Lua engines: one a mode, kept while its code stays the same."""

from __future__ import annotations

import hashlib
import json
import threading
import uuid
from collections import OrderedDict
from datetime import UTC, datetime
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tavernkit.errors import TavernKitError, Warn
from tavernkit.risu_ai.triggers.limits import (
    LUA_ENGINES,
    LUA_GRACE,
    LUA_HEADROOM,
    LUA_HOOK_INTERVAL,
    LUA_KEPT_MEMORY,
    LUA_LOAD_COST,
    LUA_QUICK_SEARCH,
    LUA_REUSED_MEMORY,
    MAX_LUA_ARGUMENTS,
    REQUEST_WINDOW_MILLISECONDS,
    REQUESTS_PER_WINDOW,
)
from tavernkit.risu_ai.triggers.lua.functions import function_list, standard_functions
from tavernkit.risu_ai.triggers.signals import TriggerFailedError
from tavernkit.values import Json
from tavernkit.workers import Job, JobFailedError, OutOfTimeError, StuckError, WorkerError, note_degraded
from tavernkit.workers.pool import Session

if TYPE_CHECKING:
    from tavernkit.risu_ai.triggers.lua.call import LuaCall

JOB = Job(Path(__file__).with_name("worker.py"))
"""What worker processes do for Lua scripts."""

INSTALL_HINT = "Lua scripts need lupa: pip install 'tavernkit[lua]'"
OUT_OF_MEMORY = "it used more memory than it may"
_SOURCES: Final = ("budget", "json", "libraries", "api", "patterns")
_MAX_DISPLAY_KEYS = 1000
_MAX_INTEGER = 2**63


class LuaStoppedError(TriggerFailedError):
    """A script used up its instructions, its time or its memory."""

    def __init__(self, message: str) -> None:
        super().__init__(message, kind="Error")


def whole_text(text: str) -> str:
    """Return a text as UTF-8 can have it: half a character becomes a replacement mark."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


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
    """One Lua state with one script in it, in the worker process of its application.

    ``made_by`` is the key of the call that made it; ``failed`` says why it is of no use any more.
    """

    def __init__(self, engines: LuaEngines, number: int, code: str) -> None:
        self.code = code
        self.fix_stale_closures = engines.fix_stale_closures
        self.requests = engines.requests
        self.display_keys = engines.display_keys
        self.made_by = ""
        self.character_name = ""
        self.failed: str | None = None
        self.memory = 0
        self.generation = 0
        """Which worker process of the session has it; 0 if none does."""
        self._engines = engines
        self.number = number
        self._crash: BaseException | None = None

    def load(self, call: LuaCall) -> None:
        """Start Lua and run the script's own code once; its functions cannot change anything then."""
        limits = call.world.budget.limits
        self.made_by, self.character_name = call.key, call.world.character.name
        if len(self.code) > limits.lua_code:
            raise TriggerFailedError(f"the script has more than {limits.lua_code} characters", kind="Error")
        if find_spec("lupa") is None:
            raise TriggerFailedError(INSTALL_HINT, kind="Error")
        call.loading = True
        try:
            self._request(call, "script", (self.code,), **_settings(limits.lua_memory))
        finally:
            call.loading = False

    def handle(self, call: LuaCall, name: str, *arguments: str) -> Json:
        """Call a global function of the script; one that is not there does nothing."""
        return self._request(call, "handle", (name, call.key, *arguments)) if self.generation else None

    def listen(self, call: LuaCall, kind: str, value: str, meta: str) -> Json:
        """Let the listeners of a kind edit a JSON text."""
        return self._request(call, "listen", (kind, call.key, value, meta)) if self.generation else None

    def remember_display_key(self, key: str) -> None:
        """Keys of display passes stay valid, in every engine."""
        self.display_keys[key] = None
        if len(self.display_keys) > _MAX_DISPLAY_KEYS:
            self.display_keys.popitem(last=False)

    def _request(self, call: LuaCall, entry: str, texts: tuple[str, ...], **settings: object) -> Json:
        """Run Lua with a fresh budget; what goes wrong is one of our errors afterwards."""
        if sum(map(len, texts)) > MAX_LUA_ARGUMENTS:
            raise TriggerFailedError(f"a script takes at most {MAX_LUA_ARGUMENTS} characters", kind="Error")
        limits = call.world.budget.limits
        request = {
            "engine": self.number,
            "closed": self._engines.take_closed(),
            "entry": entry,
            "texts": [whole_text(text) for text in texts],
            "instructions": limits.lua_instructions,
            "seconds": limits.lua_seconds,
            **settings,
        }
        reply = self._reply(call, request)
        crash, self._crash = self._crash, None
        if crash is not None:
            raise crash
        self.memory = reply["memory"]
        if "error" not in reply:
            return reply["value"]
        stopped = reply.get("stopped")
        if stopped is None:
            raise TriggerFailedError(reply["error"], kind="Error")
        raise self._stopped(OUT_OF_MEMORY if stopped == "memory" else self._out_of_time(call))

    def _reply(self, call: LuaCall, request: dict[str, object]) -> dict[str, Any]:
        budget, session = call.world.budget, self._engines.session
        session.open()
        self.generation = session.generation
        try:
            payload = json.dumps(request, ensure_ascii=False).encode()
            seconds = budget.limits.lua_seconds * LUA_GRACE
            reply, used = session.request(payload, seconds, lambda question: self._answer(call, question))
        except OutOfTimeError:
            raise self._stopped(self._out_of_time(call)) from None
        except StuckError as error:
            note_degraded(f"a Lua script {error}")
            raise self._stopped(f"the machine is too busy ({error})") from None
        except JobFailedError as error:
            raise self._stopped(str(error)) from None
        except WorkerError as error:
            raise self._stopped(f"its process could not go on ({error})") from None
        budget.spend(used)
        return json.loads(reply)

    def _out_of_time(self, call: LuaCall) -> str:
        limits = call.world.budget.limits
        return f"it took more than {limits.lua_instructions:,} instructions or {limits.lua_seconds:g} seconds"

    def _stopped(self, why: str) -> LuaStoppedError:
        self.failed = why
        return LuaStoppedError(f"the script was stopped: {why}")

    # What Lua calls

    def _answer(self, call: LuaCall, question: bytes) -> bytes:
        """Answer a script. What the application raises is raised again as soon as Lua has ended."""
        asked = json.loads(question)
        try:
            answer = self._wanted(call, asked["wanted"]) if "wanted" in asked else self._dispatch(call, asked)
        except (TavernKitError, TriggerFailedError, RecursionError) as error:
            answer = {"problem": whole_text(str(error)) or "error"}
        except BaseException as error:  # noqa: BLE001  # see above
            self._crash = error
            answer = {"problem": "the application failed"}
        return json.dumps(answer, ensure_ascii=False).encode()

    def _wanted(self, call: LuaCall, what: str) -> dict[str, object]:
        """Tell the time or draw by chance."""
        context = call.world.context
        if what == "draw":
            return {"value": float(context.random())}
        now = context.clock()
        now = now if now.tzinfo is not None else now.replace(tzinfo=UTC)
        if what == "now":
            return {"value": int(now.timestamp())}
        offset = now.astimezone(context.device.timezone).utcoffset()
        return {"value": 0 if offset is None else int(offset.total_seconds())}

    def _dispatch(self, call: LuaCall, asked: dict[str, Any]) -> dict[str, object]:
        entry = standard_functions()[asked["call"]]
        call.world.budget.step()
        values: list[Json] = asked["arguments"]
        key = values.pop(0) if entry.keyed and values else None
        if not call.allows(entry.access, key):
            return {"denied": True}
        return {"value": _for_lua(entry.function(call, values))}


@cache
def _sources() -> dict[str, str]:
    folder = Path(__file__).parent
    return {name: (folder / f"{name}.lua").read_text(encoding="utf-8") for name in _SOURCES}


def _settings(memory: int) -> dict[str, object]:
    """What a new Lua state needs to know."""
    return {
        "sources": _sources(),
        "functions": function_list(),
        "memory": memory,
        "headroom": LUA_HEADROOM,
        "hook_interval": LUA_HOOK_INTERVAL,
        "quick_search": LUA_QUICK_SEARCH,
        "load_cost": LUA_LOAD_COST,
    }


def _for_lua(value: object) -> str | float | bool | None:
    """Turn a value into one that Lua gets."""
    if isinstance(value, str):
        return whole_text(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return value if -_MAX_INTEGER <= value < _MAX_INTEGER else float(value)
    return value if isinstance(value, (bool, float)) else None


class LuaEngines:
    """The engines of one application, shared by all its scripts: another code in the same mode takes the place.

    They live in one worker process, which is lost with what they know when a script uses up its limits.
    """

    def __init__(self, *, fix_stale_closures: bool = False) -> None:
        self.fix_stale_closures = fix_stale_closures
        self.requests = RequestWindow()
        self.display_keys: OrderedDict[str, None] = OrderedDict()
        self.session = Session(JOB)
        self._engines: OrderedDict[str, LuaEngine] = OrderedDict()
        self._closed: list[int] = []
        self._engine_count = self._key_count = 0

    @property
    def lock(self) -> threading.RLock:
        """Calls of the scripts of one application wait for each other."""
        return self.session.lock

    def engine(self, mode: str, code: str) -> tuple[LuaEngine, bool]:
        """The engine of a mode with that code in it, and whether it is new."""
        with self.lock:
            known = self._engines.get(mode)
            if known is not None and known.code == code and self._is_there(known):
                self._engines.move_to_end(mode)
                return known, False
            if known is not None:
                self.drop(mode, known)
            self._engine_count += 1
            made = self._engines[mode] = LuaEngine(self, self._engine_count, code)
            if len(self._engines) > LUA_ENGINES:
                self.drop(*next(iter(self._engines.items())))
            return made, True

    def _is_there(self, engine: LuaEngine) -> bool:
        """Whether its process is still the same. One that could not be loaded has nothing to lose."""
        if engine.failed is not None or not engine.generation:
            return True
        self.session.open()
        return engine.generation == self.session.generation

    def drop(self, mode: str, engine: LuaEngine) -> None:
        """Forget an engine; the next call makes a new one."""
        with self.lock:
            if self._engines.get(mode) is engine:
                del self._engines[mode]
                self.close(engine)

    def close(self, engine: LuaEngine) -> None:
        """Let the worker process forget an engine."""
        engine.memory = 0
        self._closed.append(engine.number)

    def free_memory(self, warn: Warn) -> None:
        """Let engines go until the others do not keep too much; the one that was not called for longest goes first."""
        with self.lock:
            used = sum(engine.memory for engine in self._engines.values())
            if used > LUA_REUSED_MEMORY:
                self.session.end_with_session()
            while used > LUA_KEPT_MEMORY and len(self._engines) > 1:
                mode, engine = next(iter(self._engines.items()))
                used -= engine.memory
                self.drop(mode, engine)
                warn(f"the Lua script for {mode!r} starts anew next time: scripts keep more memory than they may")

    def take_closed(self) -> list[int]:
        """Return the engines that the worker process can forget."""
        closed, self._closed = self._closed, []
        return closed

    def new_key(self, mode: str) -> str:
        """A key for one call. It only has to differ from all others: scripts are kept apart by their engines."""
        with self.lock:
            self._key_count += 1
            digest = hashlib.sha256(f"{self._key_count}:{mode}".encode("utf-8", "replace")).digest()
        return str(uuid.UUID(bytes=digest[:16], version=4))
