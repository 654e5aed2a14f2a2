"""All functions that scripts can call."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from tavernkit.risu_ai.triggers.lua import character_functions, chat_functions, host_functions
from tavernkit.risu_ai.triggers.lua.registry import LuaFunctionEntry


@cache
def standard_functions() -> Mapping[str, LuaFunctionEntry]:
    """Every function by name."""
    tables = (chat_functions.functions, character_functions.functions, host_functions.functions)
    return MappingProxyType({name: entry for table in tables for name, entry in table.entries.items()})


@cache
def function_list() -> str:
    """The names and kinds, as the Lua side reads them."""
    return " ".join(f"{name}:{entry.kind}" for name, entry in standard_functions().items())
