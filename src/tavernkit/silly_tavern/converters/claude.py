"""Messages for Anthropic's API, as SillyTavern makes them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from tavernkit.silly_tavern.converters.config import DEFAULT_CONFIG, ConverterConfig
from tavernkit.silly_tavern.converters.messages import (
    Messages,
    copied,
    function_of,
    part_url,
    string_content,
    tool_calls,
)
from tavernkit.silly_tavern.converters.names import EXAMPLE_ASSISTANT, EXAMPLE_USER, PromptNames
from tavernkit.text.js_values import json_stringify, to_string, trim_end
from tavernkit.values import Json, JsonObject, is_list, is_object

ZERO_WIDTH_SPACE = "\u200b"


@dataclass(frozen=True, slots=True)
class ClaudePrompt:
    """Turns, and the parts of the system prompt."""

    messages: Messages
    system_prompt: list[Json]


def convert_claude(
    messages: Sequence[JsonObject],
    *,
    prefill: str = "",
    use_system_prompt: bool = True,
    use_tools: bool = True,
    names: PromptNames,
    config: ConverterConfig = DEFAULT_CONFIG,
) -> ClaudePrompt:
    """Separate the leading system messages, turn the rest into user and assistant turns of parts, merge neighbours."""
    turns = copied(messages)
    system_prompt: list[Json] = []
    if use_system_prompt:
        while turns and turns[0].get("role") == "system":
            first = turns.pop(0)
            system_prompt.append({"type": "text", "text": _example(first, names)})
        if not turns:
            turns.append({"role": "user", "content": config.prompt_placeholder})
    for turn in turns:
        _to_parts(turn, names)
    _move_assistant_images(turns)
    if prefill:
        turns.append({"role": "assistant", "content": [{"type": "text", "text": trim_end(prefill)}]})
    merged = _merge(turns)
    if not use_tools:
        for turn in merged:
            turn["content"] = [_tool_part_as_text(part) for part in _parts(turn)]
    return ClaudePrompt(merged, system_prompt)


def _to_parts(turn: JsonObject, names: PromptNames) -> None:
    calls = turn.get("tool_calls")
    if turn.get("role") == "assistant" and is_list(calls):
        turn["content"] = [_tool_use(call) for call in tool_calls(turn)]
    if turn.get("role") == "tool":
        turn["content"] = [
            {"type": "tool_result", "tool_use_id": turn.get("tool_call_id"), "content": turn.get("content")}
        ]
        turn["role"] = "user"
    if turn.get("role") == "system":
        turn["content"] = _example(turn, names)
        turn["role"] = "user"
        turn.pop("name", None)
    name = turn.get("name")
    prefix = f"{to_string(name)}: " if name else ""
    content = turn.get("content")
    if is_list(content):
        turn["content"] = [_part(part, prefix) for part in content]
    else:
        turn["content"] = [{"type": "text", "text": prefix + string_content(turn)}]
    for key in ("name", "tool_calls", "tool_call_id"):
        turn.pop(key, None)


def _example(message: JsonObject, names: PromptNames) -> Json:
    if message.get("name") in (EXAMPLE_USER, EXAMPLE_ASSISTANT):
        return names.named_example(message, string_content(message))
    return message.get("content")


def _tool_use(call: JsonObject) -> JsonObject:
    function = function_of(call)
    arguments = function.get("arguments")
    return {
        "type": "tool_use",
        "id": call.get("id"),
        "name": function.get("name"),
        "input": json.loads(arguments) if isinstance(arguments, str) else arguments,
    }


def _part(part: Json, prefix: str) -> Json:
    if not is_object(part):
        return part
    if part.get("type") == "image_url":
        source: JsonObject = {"type": "base64"}
        url = part_url(part, "image_url")
        _, colon, media_type = url.split(";")[0].partition(":")
        if colon:
            source["media_type"] = media_type.split(":")[0]
        if "," in url:
            source["data"] = url.split(",")[1]
        return {"type": "image", "source": source}
    if part.get("type") == "text":
        text = part.get("text")
        return {**part, "text": prefix + (to_string(text) if text else "") or ZERO_WIDTH_SPACE}
    return part


def _move_assistant_images(turns: Messages) -> None:
    index = 0
    while index < len(turns):
        turn = turns[index]
        images = [part for part in _parts(turn) if _is_image(part)] if turn.get("role") == "assistant" else []
        if images:
            target = index + 1
            while target < len(turns) and turns[target].get("role") != "user":
                target += 1
            if target >= len(turns):
                # The new turn stands right behind, yet the images go where the search ended: SillyTavern's own order.
                turns.insert(index + 1, {"role": "user", "content": []})
            turns[target]["content"] = [*_parts(turns[target]), *images]
            turn["content"] = [part for part in _parts(turn) if not _is_image(part)]
        index += 1


def _merge(turns: Messages) -> Messages:
    merged: Messages = []
    for turn in turns:
        if merged and merged[-1].get("role") == turn.get("role"):
            merged[-1]["content"] = [*_parts(merged[-1]), *_parts(turn)]
        else:
            merged.append(turn)
    return merged


def _tool_part_as_text(part: Json) -> Json:
    if is_object(part) and part.get("type") == "tool_use":
        return {"type": "text", "text": json_stringify(part.get("input"))}
    if is_object(part) and part.get("type") == "tool_result":
        return {"type": "text", "text": part.get("content")}
    return part


def _is_image(part: Json) -> bool:
    return is_object(part) and part.get("type") == "image"


def _parts(turn: JsonObject) -> list[Json]:
    content = turn.get("content")
    return content if is_list(content) else []
