"""Tool transforms: change the outgoing tool list."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from tavernkit.values import JsonObject, is_object
from tavernkit.vibe_tavern.tool_calling.transforms.registry import TransformRegistry

ToolTransform: TypeAlias = Callable[[list[JsonObject]], list[JsonObject] | None]
"""Changes the list in place, or returns another one."""


def strip_function_descriptions(tools: list[JsonObject]) -> None:
    """Leave descriptions out: fewer tokens, for models that know the tools."""
    for tool in tools:
        function = tool.get("function")
        if is_object(function):
            function.pop("description", None)


tool_transforms: TransformRegistry[ToolTransform] = TransformRegistry(
    "tool", {"openai_tools_strip_function_descriptions": strip_function_descriptions}
)
