"""A Lua state of lupa's, with the sandbox in place."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module, resources
from typing import Protocol, cast

from tavernkit.risu_ai.triggers.limits import LUA_HEADROOM, LUA_HOOK_INTERVAL, LUA_QUICK_SEARCH, MAX_LUA_ARGUMENTS
from tavernkit.risu_ai.triggers.lua.functions import function_list
from tavernkit.risu_ai.triggers.lua.values import TableReader
from tavernkit.risu_ai.triggers.signals import TriggerFailedError
from tavernkit.values import Json

INSTALL_HINT = "Lua scripts need lupa: pip install 'tavernkit[lua]'"

DENIED = b"denied"
"""Tells a script's function that the key does not open it."""

_TEXT_SHARE = 4
"""One text may take this part of a script's memory."""


class _Runtime(Protocol):
    def execute(self, lua_code: bytes, *args: object) -> object: ...

    def get_memory_used(self) -> int | None: ...


class _Lupa(Protocol):
    """The part of lupa that is used."""

    LuaError: type[Exception]

    def lua_type(self, value: object) -> str | None: ...

    def LuaRuntime(self, **options: object) -> _Runtime: ...  # noqa: N802  # lupa's name


def _lupa() -> _Lupa:
    try:
        return cast("_Lupa", cast("object", import_module("lupa.lua54")))
    except ImportError:
        raise TriggerFailedError(INSTALL_HINT, kind="Error") from None


@cache
def _source(name: str) -> bytes:
    return resources.files(__name__.rpartition(".")[0]).joinpath(f"{name}.lua").read_bytes()


def _deny(target: object, name: object, setting: object) -> object:
    """Keep scripts from the inside of Python objects, should one ever get into their hands."""
    raise AttributeError("access denied")


class Machine:
    """A Lua state. ``outside`` are the functions it may call; scripts themselves only see Lua functions around them.

    lupa works on a state outside of protected calls: an error there, be it for want of memory, ends the process. So a
    state is only entered while it has room, and leaves room behind (``budget.lua``); scripts never see the real table
    of globals, which lupa reads.
    """

    def __init__(self, outside: tuple[Callable[..., object], ...], memory: int) -> None:
        lupa = _lupa()
        self.errors: tuple[type[Exception], ...] = (lupa.LuaError, MemoryError)
        self._reader = TableReader(lupa.lua_type)
        self._memory = memory
        self._runtime = lupa.LuaRuntime(
            encoding=None,
            attribute_filter=_deny,
            register_eval=False,
            register_builtins=False,
            unpack_returned_tuples=False,
            max_memory=memory + LUA_HEADROOM,
        )
        over_time, now, utc_offset, draw, call, state = outside
        budget = cast("dict[bytes, Callable[..., object]]", self._run("budget", over_time, LUA_HOOK_INTERVAL, memory))
        json = self._run("json")
        libraries = self._run("libraries", budget, now, utc_offset, draw, memory // _TEXT_SHARE)
        globals_table, self._run_script = cast("tuple[object, Callable[..., object]]", libraries)
        api = self._run("api", budget, globals_table, json, function_list(), call, state, DENIED)
        self._handle, self._listen = cast("tuple[Callable[..., object], ...]", api)
        self._begin, self._is_spent = budget[b"begin"], budget[b"is_spent"]
        self._run("patterns", LUA_QUICK_SEARCH)  # last: what is ours does not need it

    def _run(self, name: str, *arguments: object) -> object:
        return self._runtime.execute(_source(name), *arguments)

    def begin(self, instructions: int, seconds: float) -> None:
        """Start a new budget."""
        self._begin(instructions, seconds)

    def run_script(self, code: bytes) -> object:
        """Run the code of a script."""
        return self._enter(self._run_script, code)

    def handle(self, *arguments: bytes) -> object:
        """Call a global function: its name, then what it gets."""
        return self._enter(self._handle, *arguments)

    def listen(self, *arguments: bytes) -> object:
        """Call listeners: their kind, the key, a JSON text and its meta data."""
        return self._enter(self._listen, *arguments)

    def has_room(self) -> bool:
        """Whether there is memory enough to go on."""
        return (self._runtime.get_memory_used() or 0) <= self._memory

    def _enter(self, function: Callable[..., object], *arguments: bytes) -> object:
        if sum(map(len, arguments)) > MAX_LUA_ARGUMENTS:
            raise TriggerFailedError(f"a script takes at most {MAX_LUA_ARGUMENTS} bytes", kind="Error")
        return function(*arguments)

    def is_spent(self) -> bool:
        """Whether the script was stopped. Once it was, no Lua function runs to its end any more, not even ours."""
        try:
            return bool(self._is_spent())
        except self.errors:
            return True

    def read(self, value: object) -> Json:
        """Turn what Lua gave into JSON."""
        return self._reader.read(value)
