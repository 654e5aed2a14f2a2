"""Rules that every request's options go through before they are sent."""

from __future__ import annotations

from collections.abc import Mapping

from tavernkit.errors import ConfigError
from tavernkit.values import JsonObject, is_mapping, is_sequence, thaw_object
from tavernkit.vibe_tavern.capabilities import Capabilities
from tavernkit.vibe_tavern.preflight import JSON_SCHEMA, response_format_kind

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


def wire_body(request: Mapping[str, object]) -> JsonObject:
    """Make the body that really goes out to an OpenAI-compatible server.

    OpenAI refuses ``parallel_tool_calls`` without tools, and ``strict`` schemas with objects of free properties. The
    request that a run records keeps both, so that what was asked for stays visible; the wire gets what works.
    """
    body = thaw_object(request)
    if not body.get("tools"):
        body.pop(PARALLEL, None)
    response_format = body.get("response_format")
    if response_format_kind(response_format) == JSON_SCHEMA and isinstance(response_format, dict):
        schema = response_format.get("json_schema")
        if isinstance(schema, dict) and schema.get("strict") is True and has_free_properties(schema.get("schema")):
            schema["strict"] = False
    return body


def has_free_properties(schema: object) -> bool:
    """Tell whether a JSON schema has an object, at any depth, that takes properties it does not name."""
    if is_mapping(schema):
        if schema.get("type") == "object" and schema.get("additionalProperties") is not False:
            return True
        return any(has_free_properties(part) for part in schema.values())
    return is_sequence(schema) and any(has_free_properties(part) for part in schema)
