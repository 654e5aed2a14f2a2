"""Lua sandboxes: one per mode, kept while its code stays the same."""

from __future__ import annotations

import json
import marshal
import threading
from collections import OrderedDict
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from tavernkit._values import Json
from tavernkit._workers import Job, JobFailedError, OutOfTimeError, StuckError, WorkerError
from tavernkit._workers.pool import Session
from tavernkit.errors import TavernKitError, Warn, note_degraded
from tavernkit.risu_ai._triggers.limits import (
    LUA_GRACE,
    LUA_HEADROOM,
    LUA_HOOK_INTERVAL,
    LUA_KEPT_MEMORY,
    LUA_LOAD_COST,
    LUA_QUICK_SEARCH,
    LUA_REUSED_MEMORY,
    LUA_SANDBOXES,
    LUA_SENT_VARIABLES,
    MAX_LUA_ARGUMENTS,
    MAX_SENT_VARIABLE,
    REQUEST_WINDOW_MILLISECONDS,
    REQUESTS_PER_WINDOW,
    TriggerFailedError,
)
from tavernkit.risu_ai._triggers.lua import chat_functions, host_functions
from tavernkit.risu_ai._triggers.lua.api import LuaFunctionEntry
from tavernkit.risu_ai._triggers.lua.worker import READ, WRITE

if TYPE_CHECKING:
    from tavernkit.risu_ai._triggers.lua.api import LuaCall

JOB = Job(Path(__file__).with_name("worker.py"))
"""The job of worker processes for Lua scripts."""

INSTALL_HINT = "Lua scripts need lupa: pip install 'tavernkit[lua]'"
OUT_OF_MEMORY = "it used more memory than it may"
_SOURCES: Final = ("budget", "json", "libraries", "api", "patterns")
_MAX_DISPLAY_KEYS = 1000
_MAX_INTEGER = 2**63
_PROBLEMS: Final = (TavernKitError, TriggerFailedError, RecursionError)
"""What becomes an error of the script."""
_read_json = json.JSONDecoder().raw_decode


@cache
def standard_functions() -> Mapping[str, LuaFunctionEntry]:
    """Every function by name."""
    tables = (chat_functions.functions, host_functions.functions)
    return MappingProxyType({name: entry for table in tables for name, entry in table.entries.items()})


@cache
def function_list() -> str:
    """The names and kinds, as the Lua side reads them."""
    return " ".join(f"{name}:{entry.kind}" for name, entry in standard_functions().items())


class LuaStoppedError(TriggerFailedError):
    """A script used up its instructions, its time or its memory."""

    def __init__(self, message: str) -> None:
        super().__init__(message, kind="Error")


def whole_text(text: str) -> str:
    """Return a text that UTF-8 can encode: lone surrogates are replaced."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


class RequestWindow:
    """Counts the web requests of scripts, including refused ones."""

    def __init__(self) -> None:
        self._started = 0.0
        self._count = 0

    def allow(self, now: datetime) -> bool:
        """Count a request; return True if it may be made."""
        moment = (now if now.tzinfo is not None else now.replace(tzinfo=UTC)).timestamp() * 1000
        if abs(moment - self._started) > REQUEST_WINDOW_MILLISECONDS:
            self._started, self._count = moment, 0
        self._count += 1
        return self._count <= REQUESTS_PER_WINDOW + 1


class LuaSandbox:
    """One Lua state with one script in it, in the worker process of its application.

    ``made_by`` is the key of the call that made it; ``failed`` says why it can no longer be used.
    """

    def __init__(self, sandboxes: LuaSandboxes, number: int, code: str) -> None:
        self.code = code
        self.fix_stale_closures = sandboxes.fix_stale_closures
        self.requests = sandboxes.requests
        self.display_keys = sandboxes.display_keys
        self.made_by = ""
        self.character_name = ""
        self.failed: str | None = None
        self.memory = 0
        self.generation = 0
        """Which worker process of the session has it; 0 if none does."""
        self._sandboxes = sandboxes
        self.number = number
        self._read: dict[str, None] = {}
        """The variables that the script has read lately."""
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
        """Call a global function of the script, if it exists."""
        return self._request(call, "handle", (name, call.key, *arguments)) if self.generation else None

    def listen(self, call: LuaCall, kind: str, value: str, meta: str) -> Json:
        """Let the listeners of a kind edit a JSON text."""
        return self._request(call, "listen", (kind, call.key, value, meta)) if self.generation else None

    def remember_display_key(self, key: str) -> None:
        """Keys of display passes stay valid, in every sandbox."""
        self.display_keys[key] = None
        if len(self.display_keys) > _MAX_DISPLAY_KEYS:
            self.display_keys.popitem(last=False)

    def _request(self, call: LuaCall, entry: str, texts: tuple[str, ...], **settings: object) -> Json:
        """Run Lua with a fresh budget; failures are raised as our own errors."""
        if sum(map(len, texts)) > MAX_LUA_ARGUMENTS:
            raise TriggerFailedError(f"a script takes at most {MAX_LUA_ARGUMENTS} characters", kind="Error")
        limits = call.world.budget.limits
        request = {
            "sandbox": self.number,
            "closed": self._sandboxes.take_closed(),
            "entry": entry,
            "texts": [whole_text(text) for text in texts],
            "variables": self._variables(call),
            "instructions": limits.lua_instructions,
            "seconds": limits.lua_seconds,
            **settings,
        }
        reply = self._reply(call, request)
        crash, self._crash = self._crash, None
        if crash is not None:
            raise crash
        self.memory = reply["memory"]
        problem: str | None = None
        try:
            self._catch_up(call, reply)
        except _PROBLEMS as error:
            problem = str(error)
        stopped = reply.get("stopped")
        if stopped is not None:
            raise self._stopped(OUT_OF_MEMORY if stopped == "memory" else self._out_of_time(call))
        if problem is None:
            if "error" not in reply:
                return reply["value"]
            problem = str(reply["error"] or "it raised an error without a message")
        raise TriggerFailedError(problem, kind="Error")

    def _reply(self, call: LuaCall, request: dict[str, object]) -> dict[str, Any]:
        budget, session = call.world.budget, self._sandboxes.session
        used = seconds = budget.limits.lua_seconds * LUA_GRACE  # a process that was ended does not say what it used
        try:
            if not self.generation:
                self.generation = session.open()
            reply, used = session.request(marshal.dumps(request), seconds, lambda asked: self._answer(call, asked))
        except OutOfTimeError:
            raise self._stopped(self._out_of_time(call)) from None
        except StuckError as error:
            note_degraded(f"a Lua script {error}")
            raise self._stopped(f"the machine is too busy ({error})") from None
        except JobFailedError as error:
            raise self._stopped(str(error)) from None
        except WorkerError as error:
            raise self._stopped(f"its process could not continue ({error})") from None
        finally:
            budget.spend(used)
        return _read_json(reply.decode())[0]

    def _out_of_time(self, call: LuaCall) -> str:
        limits = call.world.budget.limits
        return f"it took more than {limits.lua_instructions:,} instructions or {limits.lua_seconds:g} seconds"

    def _stopped(self, why: str) -> LuaStoppedError:
        self.failed = why
        return LuaStoppedError(f"the script was stopped: {why}")

    # What Lua calls

    def _answer(self, call: LuaCall, question: bytes) -> bytes:
        """Answer a script. Errors of the application are raised again when Lua has ended."""
        asked = _read_json(question.decode())[0]
        try:
            self._catch_up(call, asked)
            answer = self._wanted(call, asked["wanted"]) if "wanted" in asked else self._dispatch(call, asked)
        except _PROBLEMS as error:
            answer = {"problem": whole_text(str(error)) or "error"}
        except BaseException as error:  # noqa: BLE001  # see above
            self._crash = error
            answer = {"problem": "the application failed"}
        return marshal.dumps(answer)

    def _wanted(self, call: LuaCall, what: str) -> dict[str, object]:
        """Return the time, or a random number."""
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
        name, values = asked["call"], asked["arguments"]
        if name == READ and len(values) > 1 and isinstance(values[1], str):
            self._remember_read(values[1])
        return _called(call, name, values)

    def _catch_up(self, call: LuaCall, message: dict[str, Any]) -> None:
        """Do what the script has done with variables since its last message."""
        if "reads" in message:
            call.world.budget.step(max(int(message["reads"]), 0))
        if "writes" in message:
            for values in message["writes"]:
                _called(call, WRITE, values)

    def _remember_read(self, name: str) -> None:
        """The variable is sent with the next call of the script."""
        if len(name) <= MAX_SENT_VARIABLE:
            self._read[name] = None
            if len(self._read) > LUA_SENT_VARIABLES:
                del self._read[next(iter(self._read))]

    def _variables(self, call: LuaCall) -> dict[str, str]:
        """Return the variables that the script is likely to read, if they are short."""
        found: dict[str, str] = {}
        for name in self._read:
            value = call.get_variable(name)
            if len(value) <= MAX_SENT_VARIABLE:
                found[name] = whole_text(value)
        return found


def _called(call: LuaCall, name: str, values: list[Json]) -> dict[str, object]:
    """Call a function for a script, if its key allows that."""
    entry = standard_functions()[name]
    call.world.budget.step()
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
    """Convert a value for Lua."""
    if isinstance(value, str):
        return whole_text(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return value if -_MAX_INTEGER <= value < _MAX_INTEGER else float(value)
    return value if isinstance(value, (bool, float)) else None


class LuaSandboxes:
    """The sandboxes of one application, shared by all its scripts: other code in the same mode replaces a sandbox.

    They live in one worker process, which is lost with their state when a script exceeds its limits.
    """

    def __init__(self, *, fix_stale_closures: bool = False) -> None:
        self.fix_stale_closures = fix_stale_closures
        self.requests = RequestWindow()
        self.display_keys: OrderedDict[str, None] = OrderedDict()
        self.session = Session(JOB)
        self._sandboxes: OrderedDict[str, LuaSandbox] = OrderedDict()
        self._closed: list[int] = []
        self._sandbox_count = self._key_count = 0

    @property
    def lock(self) -> threading.RLock:
        """Calls of the scripts of one application wait for each other: hold it while calling the methods below."""
        return self.session.lock

    def sandbox(self, mode: str, code: str) -> tuple[LuaSandbox, bool]:
        """Return the sandbox of a mode with that code, and whether it is new."""
        known = self._sandboxes.get(mode)
        if known is not None and known.code == code and self._is_there(known):
            self._sandboxes.move_to_end(mode)
            return known, False
        if known is not None:
            self.drop(mode, known)
        self._sandbox_count += 1
        made = self._sandboxes[mode] = LuaSandbox(self, self._sandbox_count, code)
        if len(self._sandboxes) > LUA_SANDBOXES:
            self.drop(*next(iter(self._sandboxes.items())))
        return made, True

    def _is_there(self, sandbox: LuaSandbox) -> bool:
        """Return True if its process is still the same. A sandbox that could not be loaded has no state to lose."""
        if sandbox.failed is not None or not sandbox.generation:
            return True
        return sandbox.generation == self.session.generation and self.session.is_open

    def drop(self, mode: str, sandbox: LuaSandbox) -> None:
        """Drop a sandbox; the next call makes a new one."""
        if self._sandboxes.get(mode) is sandbox:
            del self._sandboxes[mode]
            self.close(sandbox)

    def close(self, sandbox: LuaSandbox) -> None:
        """Let the worker process drop a sandbox."""
        sandbox.memory = 0
        self._closed.append(sandbox.number)

    def free_memory(self, warn: Warn) -> None:
        """Close the least recently called sandboxes until the rest use little enough memory."""
        used = sum([sandbox.memory for sandbox in self._sandboxes.values()])
        if used > LUA_REUSED_MEMORY:
            self.session.end_with_session()
        while used > LUA_KEPT_MEMORY and len(self._sandboxes) > 1:
            mode, sandbox = next(iter(self._sandboxes.items()))
            used -= sandbox.memory
            self.drop(mode, sandbox)
            warn(f"the Lua script for {mode!r} starts over next time: scripts keep more memory than they may")

    def take_closed(self) -> list[int]:
        """Return the sandboxes that the worker process can drop."""
        closed, self._closed = self._closed, []
        return closed

    def new_key(self) -> str:
        """Return a key for one call. It only needs to be unique, because scripts are separated by their sandboxes."""
        self._key_count += 1
        return f"{self._key_count:08x}-0000-4000-a000-000000000000"
