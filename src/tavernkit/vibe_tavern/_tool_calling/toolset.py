"""Several toolsets as one."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Protocol, cast

from tavernkit._values import JsonObject
from tavernkit.errors import ConfigError
from tavernkit.vibe_tavern._tool_calling.registry import ToolDefinition
from tavernkit.vibe_tavern.errors import ToolArgumentError


class Toolset(Protocol):
    """Tools with their executor: a set of functions, an MCP server, or an application's own."""

    @property
    def definitions(self) -> tuple[ToolDefinition, ...]:
        """Every tool, in order."""
        ...

    def execute(self, name: str, args: JsonObject) -> object:
        """Run a tool; may return an awaitable.

        Args:
            name: The tool's name.
            args: Its arguments.
        """
        ...


class CombinedToolset:
    """The tools of several toolsets, each run by its own set; names must be unique.

    Raises:
        ConfigError: Two toolsets have a tool with the same name.
    """

    def __init__(self, *toolsets: Toolset) -> None:
        self._owners: dict[str, Toolset] = {}
        for toolset in toolsets:
            for definition in toolset.definitions:
                if definition.name in self._owners:
                    raise ConfigError(f"tool {definition.name!r} is in two toolsets", code="DUPLICATE_TOOL")
                self._owners[definition.name] = toolset
        self.definitions = tuple(definition for toolset in toolsets for definition in toolset.definitions)

    def execute(self, name: str, args: JsonObject, *, tool_call_id: str = "") -> object:
        """Run a tool: the executor of a tool loop.

        Args:
            name: The tool's name.
            args: Its arguments.
            tool_call_id: The id of the call, for toolsets with that parameter.

        Raises:
            ToolArgumentError: There is no such tool.
        """
        owner = self._owners.get(name)
        if owner is None:
            raise ToolArgumentError(f"No such tool: {name}")
        run = cast("Callable[..., object]", owner.execute)
        if "tool_call_id" in inspect.signature(run).parameters:
            return run(name, args, tool_call_id=tool_call_id)
        return run(name, args)
