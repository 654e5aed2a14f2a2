"""Tool-call transforms: change the calls that were read from an answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from tavernkit.text.blank import trim_blanks
from tavernkit.values import JsonObject, is_object
from tavernkit.vibe_tavern.tool_calling.transforms.registry import TransformRegistry

ToolCallTransform: TypeAlias = Callable[[list[JsonObject]], list[JsonObject] | None]
"""Changes the list in place, or returns another one."""


def arguments_blank_to_empty_object(calls: list[JsonObject]) -> None:
    """Read blank arguments as no arguments."""
    for call in calls:
        function = call.get("function")
        if is_object(function):
            arguments = function.get("arguments")
            if isinstance(arguments, str) and not trim_blanks(arguments):
                function["arguments"] = "{}"


tool_call_transforms: TransformRegistry[ToolCallTransform] = TransformRegistry(
    "tool_call", {"assistant_tool_calls_arguments_blank_to_empty_object": arguments_blank_to_empty_object}
)
