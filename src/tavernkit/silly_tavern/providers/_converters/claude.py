"""Messages for Anthropic's API, as SillyTavern makes them."""

from __future__ import annotations

from collections.abc import Sequence

from tavernkit._dataclass import dataclass
from tavernkit._text.js_values import JSSyntaxError, json_parse, json_stringify, to_string, trim_end
from tavernkit._values import Json, JsonObject, is_list, is_object
from tavernkit.dialects._shapes import anthropic_block
from tavernkit.silly_tavern.providers._config import DEFAULT_CONFIG, SillyTavernConfig
from tavernkit.silly_tavern.providers._converters.messages import (
    MessageConversionError,
    Messages,
    ToolArgumentsError,
    copied,
    function_of,
    part_url,
    present,
    tool_calls,
)
from tavernkit.silly_tavern.providers._converters.names import PromptNames

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
    config: SillyTavernConfig = DEFAULT_CONFIG,
) -> ClaudePrompt:
    """Separate the leading system messages, turn the rest into user and assistant turns of parts, merge neighbours."""
    turns = copied(messages)
    system_prompt: list[Json] = []
    if use_system_prompt:
        while turns and turns[0].get("role") == "system":
            first = turns.pop(0)
            names.name_example(first)
            system_prompt.append(anthropic_block("text", **present(first, text="content")))
        if not turns:
            turns.append({"role": "user", "content": config.prompt_placeholder})
    for turn in turns:
        _to_parts(turn, names)
    _move_assistant_images(turns)
    if prefill:
        turns.append({"role": "assistant", "content": [anthropic_block("text", text=trim_end(prefill))]})
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
        result = present(turn, tool_use_id="tool_call_id", content="content")
        turn["content"] = [anthropic_block("tool_result", **result)]
        turn["role"] = "user"
    if turn.get("role") == "system":
        names.name_example(turn)
        turn["role"] = "user"
        turn.pop("name", None)
    name = turn.get("name")
    prefix = to_string(name) + ": " if name else ""
    content = turn.get("content")
    if is_list(content):
        turn["content"] = [_part(part, prefix) for part in content]
    elif isinstance(content, str):
        turn["content"] = [anthropic_block("text", text=prefix + content)]
    for key in ("name", "tool_calls", "tool_call_id"):
        turn.pop(key, None)


def _tool_use(call: JsonObject) -> JsonObject:
    function = function_of(call)
    used = anthropic_block("tool_use", **present(call, id="id"))
    used.update(present(function, name="name", input="arguments"))
    arguments = function.get("arguments")
    if isinstance(arguments, str):
        try:
            used["input"] = json_parse(arguments)
        except JSSyntaxError as error:
            raise ToolArgumentsError(
                f"the arguments of a call of {function.get('name')!r} are not JSON: {error}"
            ) from error
    return used


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
        return anthropic_block("image", source=source)
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
                # The new turn follows directly, but the images go where the search ended: SillyTavern's own order.
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
        written: JsonObject = {"text": json_stringify(part["input"])} if "input" in part else {}
        return anthropic_block("text", **written)
    if is_object(part) and part.get("type") == "tool_result":
        return anthropic_block("text", **present(part, text="content"))
    return part


def _is_image(part: Json) -> bool:
    return is_object(part) and part.get("type") == "image"


def _parts(turn: JsonObject) -> list[Json]:
    content = turn.get("content")
    if not is_list(content):
        raise MessageConversionError(
            f"the content of a {turn.get('role')} message must be text or a list of parts, not {type(content).__name__}"
        )
    return content


def cache_mark(ttl: str | None) -> JsonObject:
    """Return a ``cache_control`` value; without a time, the provider's default applies."""
    return {"type": "ephemeral"} if ttl is None else {"type": "ephemeral", "ttl": ttl}


def cache_at_depth(messages: Sequence[JsonObject], depth: int, ttl: str) -> Messages:
    """Put cache marks at ``depth`` and two role changes deeper, counted from the end without the prefill."""
    turns = copied(messages)
    for turn in turns_at_depth(turns, depth):
        _last_part(turn)["cache_control"] = cache_mark(ttl)
    return turns


def turns_at_depth(turns: Messages, depth: int, *, skip_system: bool = False) -> list[JsonObject]:
    """Return the messages at ``depth`` role changes from the end, and at two more, ignoring a prefill."""
    found: list[JsonObject] = []
    passed_prefill = False
    switches = 0
    previous: Json = ""
    for turn in reversed(turns):
        role = turn.get("role")
        if not passed_prefill and role == "assistant":
            continue
        passed_prefill = True
        if role == previous or (skip_system and role == "system"):
            continue
        if switches in (depth, depth + 2):
            found.append(turn)
        switches += 1
        previous = role
    return found


def _last_part(turn: JsonObject) -> JsonObject:
    content = turn.get("content")
    if not is_list(content) or not content or not is_object(content[-1]):
        raise MessageConversionError("a message to be cached must have a list of parts that is not empty")
    return content[-1]
