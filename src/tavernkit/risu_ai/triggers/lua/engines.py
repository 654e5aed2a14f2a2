"""The Lua engines of an application."""

from __future__ import annotations


class LuaEngines:
    """Keeps engines between calls."""

    def __init__(self, *, fix_stale_closures: bool = False) -> None:
        self.fix_stale_closures = fix_stale_closures
