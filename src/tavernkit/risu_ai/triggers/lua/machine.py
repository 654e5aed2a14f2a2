"""A Lua state of lupa's, with the sandbox in place."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module, resources
from typing import Protocol, cast

from tavernkit.risu_ai.triggers.limits import LUA_HOOK_INTERVAL
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
    """A Lua state. ``outside`` are the functions it may call; scripts themselves only see Lua functions around them."""

    def __init__(self, outside: tuple[Callable[..., object], ...], memory: int) -> None:
        lupa = _lupa()
        self.errors: tuple[type[Exception], ...] = (lupa.LuaError, MemoryError)
        self._reader = TableReader(lupa.lua_type)
        runtime = lupa.LuaRuntime(
            encoding=None,
            attribute_filter=_deny,
            register_eval=False,
            register_builtins=False,
            unpack_returned_tuples=False,
            max_memory=memory,
        )
        over_time, now, utc_offset, draw, call, state = outside
        begin, is_spent, run_script, raw = _functions(
            runtime.execute(
                _source("sandbox"), over_time, now, utc_offset, draw, LUA_HOOK_INTERVAL, memory // _TEXT_SHARE
            )
        )
        runtime.execute(_source("patterns"), raw)
        json = runtime.execute(_source("json"), raw)
        self.begin, self.is_spent, self.run_script = begin, is_spent, run_script
        self.handle, self.listen = _functions(
            runtime.execute(_source("api"), raw, json, function_list(), call, state, DENIED)
        )

    def read(self, value: object) -> Json:
        """Turn what Lua gave into JSON."""
        return self._reader.read(value)


def _functions(values: object) -> tuple[Callable[..., object], ...]:
    return cast("tuple[Callable[..., object], ...]", values)
