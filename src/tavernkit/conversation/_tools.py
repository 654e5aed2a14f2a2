"""Tools of a conversation: Python functions, toolsets, MCP servers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Final, TypeAlias, TypeGuard

from tavernkit._arguments import require
from tavernkit._turns import ToolOutcome
from tavernkit._values import is_mapping, is_sequence
from tavernkit.errors import ConfigError
from tavernkit.models._reply import ToolCall
from tavernkit.vibe_tavern._limits import TOOL_TIMEOUT_SECONDS
from tavernkit.vibe_tavern._tool_calling.calls import (
    ARGUMENTS_JSON_PARSE_ERROR,
    ARGUMENTS_TOO_LARGE,
    MESSAGES,
    parse_arguments,
)
from tavernkit.vibe_tavern._tool_calling.dispatcher import ToolDispatcher
from tavernkit.vibe_tavern._tool_calling.functions import FunctionTool, FunctionToolset
from tavernkit.vibe_tavern._tool_calling.registry import CombinedToolset, ToolDefinition, Toolset

ToolInput: TypeAlias = Callable[..., object] | FunctionTool | Toolset
"""A typed Python function, a ``FunctionToolset``, a connected ``McpToolset``, or any object like these."""

MAX_ARGUMENT_BYTES: Final = 1_000_000


class ToolBox:
    """Runs the tools of a conversation. An error in a tool becomes a result that the model can read."""

    def __init__(self, tools: Iterable[ToolInput] = (), *, timeout: float | None = TOOL_TIMEOUT_SECONDS) -> None:
        require("tools", tools, Iterable, "a list of functions and toolsets")
        functions = FunctionToolset()
        toolsets: list[Toolset] = []
        for tool in tools:
            if _is_toolset(tool):
                toolsets.append(tool)
            elif isinstance(tool, FunctionTool) or callable(tool):
                functions.add(tool)
            else:
                raise ConfigError(f"a tool is a function or a toolset, not {type(tool).__name__}", code="INVALID_TOOL")
        self._tools = CombinedToolset(functions, *toolsets)
        self._dispatcher = ToolDispatcher(self._tools.execute, self._tools, timeout=timeout)

    @property
    def definitions(self) -> tuple[ToolDefinition, ...]:
        """The tools that the model may call."""
        return tuple(each for each in self._tools.definitions if each.exposed_to_model)

    async def call(self, call: ToolCall) -> ToolOutcome:
        """Run a tool that the model asked for."""
        parsed = parse_arguments(call.arguments, max_bytes=MAX_ARGUMENT_BYTES)
        if parsed.status != "ok":
            code = ARGUMENTS_TOO_LARGE if parsed.status == "too_large" else ARGUMENTS_JSON_PARSE_ERROR
            return ToolOutcome(result=MESSAGES[code], failed=True)
        result = await self._dispatcher.dispatch(call.name, parsed.value, tool_call_id=call.id)
        if result.get("ok") is True:
            return ToolOutcome(result=_text(result.get("data")))
        return ToolOutcome(result=_problem(result), failed=True)


def _is_toolset(tool: object) -> TypeGuard[Toolset]:
    return hasattr(tool, "definitions") and callable(getattr(tool, "execute", None))


def _text(data: object) -> str:
    """Return the result of a tool: text unchanged, everything else as JSON."""
    value: object = data["value"] if is_mapping(data) and set(data) == {"value"} else data
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _problem(result: dict[str, object]) -> str:
    errors = result.get("errors")
    found = (
        each.get("message") or each.get("code") for each in (errors if is_sequence(errors) else ()) if is_mapping(each)
    )
    return "; ".join(str(each) for each in found if each) or "The tool failed."
