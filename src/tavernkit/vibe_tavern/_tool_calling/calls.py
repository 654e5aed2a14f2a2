"""Reads the tool calls of an assistant message."""

from __future__ import annotations

from collections.abc import Sequence

from tavernkit._text.coerce import trim_blanks
from tavernkit._text.strict_json import plain_text
from tavernkit._values import Json, JsonObject, is_list, is_object
from tavernkit.vibe_tavern._tool_calling.arguments import arguments_size


def read_tool_calls(value: Json) -> list[JsonObject]:
    """Read calls from a list or a single object; other values are left out, ids are made unique."""
    listed = value if is_list(value) else [value] if is_object(value) else []
    return with_unique_ids([_trimmed(call) for call in listed if is_object(call)])


def with_unique_ids(calls: Sequence[JsonObject]) -> list[JsonObject]:
    """Make the ids of calls unique: missing ones are numbered, repeated ones get a suffix."""
    unique: list[JsonObject] = []
    taken: set[str] = set()
    numbers: dict[str, int] = {}
    for position, call in enumerate(calls, start=1):
        base = identity = call_id(call) or f"tc_{position}"
        while identity in taken:
            number = numbers[base] = numbers.get(base, 1) + 1
            identity = f"{base}__{number}"
        taken.add(identity)
        unique.append({**call, "id": identity})
    return unique


def call_id(call: JsonObject) -> str:
    """Return the id of a call, or an empty text."""
    return trim_blanks(plain_text(call.get("id")))


def call_name(call: JsonObject) -> str:
    """Return the name of the called tool, or an empty text."""
    function = call.get("function")
    return trim_blanks(plain_text(function.get("name"))) if is_object(function) else ""


def call_arguments(call: JsonObject) -> Json:
    """Return the arguments as the model wrote them."""
    function = call.get("function")
    return function.get("arguments") if is_object(function) else None


def call_summary(call: JsonObject) -> JsonObject:
    """Return the summary of a call for events and traces."""
    return {"id": call_id(call), "name": call_name(call), "arguments_bytes": arguments_size(call_arguments(call))}


def _trimmed(call: JsonObject) -> JsonObject:
    trimmed = dict(call)
    function = call.get("function")
    if is_object(function):
        trimmed["function"] = {**function, "name": call_name(call)} if "name" in function else dict(function)
    if "id" in call:
        trimmed["id"] = call_id(call)
    return trimmed
