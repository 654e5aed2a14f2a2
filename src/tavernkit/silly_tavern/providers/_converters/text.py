"""Messages for text-completion endpoints, and marks that some chat providers require."""

from __future__ import annotations

from collections.abc import Sequence

from tavernkit._text.js_values import UNDEFINED, to_string
from tavernkit._text.traced import join
from tavernkit._values import Json, JsonObject, is_list, is_object
from tavernkit.silly_tavern.providers._config import DEFAULT_CONFIG, SillyTavernConfig
from tavernkit.silly_tavern.providers._converters.messages import Messages, copied, printed_content
from tavernkit.silly_tavern.providers._converters.names import PromptNames
from tavernkit.silly_tavern.providers._converters.post_process import post_process


def to_text_prompt(messages: Json) -> Json:
    """Write messages as lines of a text for the assistant to continue; a text is returned unchanged."""
    if not is_list(messages):
        return messages
    lines = [_line(message) for message in messages if is_object(message)]
    return join("\n", lines) + "\nassistant:"


def _line(message: JsonObject) -> str:
    if message.get("role") == "system":
        speaker = "System" if "name" not in message else to_string(message["name"])
    else:
        speaker = to_string(message.get("role", UNDEFINED))
    return join("", (speaker, ": ", printed_content(message)))


def add_assistant_prefix(messages: Sequence[JsonObject], tools: Json, key: str) -> Messages:
    """Mark a trailing assistant message for continuation, unless tools are used."""
    turns = copied(messages)
    tools_in_play = (is_list(tools) and bool(tools)) or any(turn.get("role") == "tool" for turn in turns)
    if turns and not tools_in_play and turns[-1].get("role") == "assistant":
        turns[-1][key] = True
    return turns


def add_reasoning_content(messages: Sequence[JsonObject]) -> Messages:
    """Add an empty ``reasoning_content`` to messages with tool calls, if missing."""
    turns = copied(messages)
    for turn in turns:
        if is_list(turn.get("tool_calls")):
            turn.setdefault("reasoning_content", "")
    return turns


def convert_deepseek(
    messages: Sequence[JsonObject],
    *,
    tools: Json = None,
    names: PromptNames,
    config: SillyTavernConfig = DEFAULT_CONFIG,
) -> Messages:
    """Convert messages for DeepSeek as SillyTavern does."""
    merged = post_process(messages, "semi_tools", names, config)
    return add_reasoning_content(add_assistant_prefix(merged, tools, "prefix"))
