"""Rules that every request's options go through before they are sent."""

from __future__ import annotations

from collections.abc import Mapping

from tavernkit.errors import ConfigError
from tavernkit.values import JsonObject, thaw_object
from tavernkit.vibe_tavern.capabilities import Capabilities
from tavernkit.vibe_tavern.preflight import response_format_kind

PARALLEL = "parallel_tool_calls"


def normalize_options(options: Mapping[str, object]) -> JsonObject:
    """Settle ``parallel_tool_calls``: structured output forces false, tools default to false."""
    normal = thaw_object(options)
    structured = response_format_kind(normal.get("response_format")) is not None
    with_tools = "tools" in normal or "tool_choice" in normal
    if structured or (with_tools and PARALLEL not in normal):
        normal[PARALLEL] = False
    if PARALLEL in normal and not isinstance(normal[PARALLEL], bool):
        raise ConfigError(
            f"parallel_tool_calls must be true or false, not {normal[PARALLEL]!r}",
            code="PARALLEL_TOOL_CALLS_NOT_BOOLEAN",
        )
    return normal


def filter_request(request: Mapping[str, object], capabilities: Capabilities) -> JsonObject:
    """Leave out ``parallel_tool_calls`` for providers that do not know the field; the options keep it."""
    filtered = thaw_object(request)
    if not capabilities.supports_parallel_tool_calls:
        filtered.pop(PARALLEL, None)
    return filtered
