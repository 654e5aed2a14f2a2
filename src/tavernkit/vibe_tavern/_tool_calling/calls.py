"""Reads the tool calls of an assistant message, and their arguments in any form that models write."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import field
from typing import Literal

from tavernkit._dataclass import dataclass
from tavernkit._text import strict_json
from tavernkit._text.coerce import trim_blanks
from tavernkit._text.strict_json import plain_text, without_fence
from tavernkit._values import Json, JsonObject, is_list, is_mapping, is_object, is_sequence, thaw_object

ParseStatus = Literal["ok", "invalid_json", "too_large"]

_LABELS = tuple("".join(letters) for letters in itertools.product("jJ", "sS", "oO", "nN"))
"""``json`` in any case."""


def read_tool_calls(value: Json) -> list[JsonObject]:
    """Read calls from a list or a single object; other values are left out, ids are made unique."""
    listed = value if is_list(value) else [value] if is_object(value) else []
    return with_unique_ids([_trim(call) for call in listed if is_object(call)])


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


def _trim(call: JsonObject) -> JsonObject:
    trimmed = dict(call)
    function = call.get("function")
    if is_object(function):
        trimmed["function"] = {**function, "name": call_name(call)} if "name" in function else dict(function)
    if "id" in call:
        trimmed["id"] = call_id(call)
    return trimmed


@dataclass(frozen=True, slots=True)
class ParsedArguments:
    """The arguments as an object, or an error; ``size`` is in bytes."""

    status: ParseStatus
    size: int
    value: JsonObject = field(default_factory=dict[str, Json])


def parse_arguments(arguments: object, *, max_bytes: int) -> ParsedArguments:
    """Read arguments: JSON text (also in a code fence or encoded twice), an object, or None for no arguments."""
    if arguments is None:
        return ParsedArguments("ok", 0)
    size = arguments_size(arguments)
    if not isinstance(arguments, str):
        if size > max_bytes:
            return ParsedArguments("too_large", size)
        if is_mapping(arguments):
            return ParsedArguments("ok", size, thaw_object(arguments))
        return ParsedArguments("invalid_json", size)
    text = without_fence(trim_blanks(arguments), labels=_LABELS)
    if not text:
        return ParsedArguments("ok", size)
    trimmed_size = strict_json.byte_length(text)
    if trimmed_size > max_bytes:
        return ParsedArguments("too_large", trimmed_size)
    try:
        value = strict_json.loads(text)
        if isinstance(value, str):
            value = strict_json.loads(trim_blanks(value))
    except ValueError:
        return ParsedArguments("invalid_json", size)
    return ParsedArguments("ok", size, value) if is_object(value) else ParsedArguments("invalid_json", size)


def arguments_size(arguments: object) -> int:
    """Bytes of arguments: of the text, or of the JSON text of an object."""
    if arguments is None:
        return 0
    if isinstance(arguments, str):
        return strict_json.byte_length(arguments)
    if is_mapping(arguments) or is_sequence(arguments):
        try:
            return strict_json.byte_length(strict_json.compact(arguments))
        except (ValueError, TypeError, RecursionError):
            return len(repr(arguments))
    return strict_json.byte_length(str(arguments))
