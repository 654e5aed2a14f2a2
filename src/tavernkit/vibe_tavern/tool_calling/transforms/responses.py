"""Response transforms: bring the assistant message of an answer into the standard form, in place."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeAlias

from tavernkit.text import strict_json
from tavernkit.text.blank import trim_blanks
from tavernkit.text.verbatim_masker import mask, unmask
from tavernkit.values import Json, JsonObject, is_list, is_object
from tavernkit.vibe_tavern.output_tags.config import OutputTagsConfig
from tavernkit.vibe_tavern.tool_calling.transforms.registry import TransformRegistry

ResponseTransform: TypeAlias = Callable[[JsonObject, OutputTagsConfig], object]
"""Gets the assistant message, to be changed in place, and the run's output-tags options."""

_OPENING = "<tool_call>"
_CLOSING = "</tool_call>"
_NAME_AND_JSON = re.compile(r"([\w.\-]+)\s*(\{.*\})", re.DOTALL | re.ASCII)
_BARE_NAME = re.compile(r"[\w.\-]+", re.ASCII)


def function_call_to_tool_calls(message: JsonObject, _: OutputTagsConfig) -> None:
    """Read the legacy ``function_call`` as a tool call."""
    call = message.get("function_call")
    if message.get("tool_calls") or not is_object(call):
        return
    name = call.get("name")
    if not isinstance(name, str) or not trim_blanks(name):
        return
    message["tool_calls"] = [_tool_call("call_1", name, call.get("arguments"))]
    del message["function_call"]


def tool_calls_object_to_array(message: JsonObject, _: OutputTagsConfig) -> None:
    """Read a single tool call as a list of one."""
    calls = message.get("tool_calls")
    if is_object(calls):
        message["tool_calls"] = [calls]


def arguments_json_string_if_hash(message: JsonObject, _: OutputTagsConfig) -> None:
    """Write arguments that came as an object or list as JSON text."""
    calls = message.get("tool_calls")
    for call in calls if is_list(calls) else ():
        function = call.get("function") if is_object(call) else None
        if is_object(function) and isinstance(function.get("arguments"), (dict, list)):
            function["arguments"] = strict_json.compact(function["arguments"])


def content_tags_to_tool_calls(message: JsonObject, output_tags: OutputTagsConfig) -> None:
    """Read ``<tool_call>`` tags in the text as tool calls; code and escaped tags stay text.

    A tag holds JSON with a name and arguments, or ``name {json}``, or a bare name. One that cannot be read stays.
    """
    content = message.get("content")
    if message.get("tool_calls") or not isinstance(content, str) or _OPENING not in content:
        return
    masked, placeholders = mask(content, output_tags.escape_hatch)
    calls: list[Json] = []
    kept: list[str] = []
    position = 0
    while (start := masked.find(_OPENING, position)) >= 0:
        end = masked.find(_CLOSING, start)
        if end < 0:
            break
        inside = unmask(masked[start + len(_OPENING) : end], placeholders)
        call = _payload(trim_blanks(inside), len(calls) + 1)
        end += len(_CLOSING)
        kept.append(masked[position : start if call else end])
        calls += [call] if call else []
        position = end
    rest = unmask("".join([*kept, masked[position:]]), placeholders)
    message["content"] = trim_blanks(rest) if calls else rest
    if calls:
        message["tool_calls"] = calls


response_transforms: TransformRegistry[ResponseTransform] = TransformRegistry(
    "response",
    {
        "assistant_function_call_to_tool_calls": function_call_to_tool_calls,
        "assistant_tool_calls_object_to_array": tool_calls_object_to_array,
        "assistant_tool_calls_arguments_json_string_if_hash": arguments_json_string_if_hash,
        "assistant_content_tool_call_tags_to_tool_calls": content_tags_to_tool_calls,
    },
)


def _payload(text: str, number: int) -> JsonObject | None:
    identity = f"tag_call_{number}"
    try:
        value = strict_json.loads(text)
    except ValueError:
        match = _NAME_AND_JSON.fullmatch(text)
        if match:
            return _tool_call(identity, match.group(1), match.group(2))
        return _tool_call(identity, text, "{}") if _BARE_NAME.fullmatch(text) else None
    if not is_object(value):
        return None
    function = value.get("function")
    described = function if is_object(function) else value
    name = described.get("name")
    if not isinstance(name, str) or not trim_blanks(name):
        return None
    arguments = described.get("arguments")
    if arguments is None:
        arguments = described.get("args")
    if arguments is None:
        arguments = {}
    return _tool_call(identity, name, arguments if isinstance(arguments, str) else strict_json.compact(arguments))


def _tool_call(identity: str, name: str, arguments: Json) -> JsonObject:
    return {"id": identity, "type": "function", "function": {"name": trim_blanks(name), "arguments": arguments}}
