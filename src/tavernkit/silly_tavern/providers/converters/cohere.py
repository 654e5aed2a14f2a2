"""Messages for Cohere's API, as SillyTavern makes them."""

from __future__ import annotations

from collections.abc import Sequence

from tavernkit.silly_tavern.providers.config import DEFAULT_CONFIG, SillyTavernConfig
from tavernkit.silly_tavern.providers.converters.messages import (
    Messages,
    copied,
    function_of,
    present,
    string_content,
    tool_calls,
)
from tavernkit.silly_tavern.providers.converters.names import PromptNames, with_prefix
from tavernkit.text.js_values import join, to_string
from tavernkit.values import JsonObject, is_list

CALLING_TOOLS = "I'm going to call a tool for that: "


def convert_cohere(
    messages: Sequence[JsonObject], *, names: PromptNames, config: SillyTavernConfig = DEFAULT_CONFIG
) -> Messages:
    """Give every tool call a text and write names into messages."""
    turns = copied(messages)
    if not turns:
        turns.append({"role": "user", "content": config.prompt_placeholder})
    index = 0
    while index < len(turns):
        turn = turns[index]
        if is_list(turn.get("tool_calls")):
            if index > 0 and turns[index - 1].get("role") == "assistant":
                turn.pop("content", None)
                turn.update(present(turns[index - 1], content="content"))
                # The message after the removed one moves into its place and is not looked at again.
                del turns[index - 1]
            else:
                called = join([function_of(call).get("name") for call in tool_calls(turn)], ", ")
                turn["content"] = CALLING_TOOLS + called
        _write_name(turn, names)
        index += 1
    return turns


def _write_name(turn: JsonObject, names: PromptNames) -> None:
    name = turn.get("name")
    if not name:
        return
    if turn.get("role") == "system":
        names.name_example(turn)
    else:
        turn["content"] = with_prefix(string_content(turn), to_string(name))
    del turn["name"]
