"""Messages for Mistral's API, as SillyTavern makes them."""

from __future__ import annotations

import hashlib
from itertools import pairwise

from tavernkit._text.js_values import to_string, truthy
from tavernkit._values import Json, JsonObject, is_list
from tavernkit.silly_tavern.providers._config import DEFAULT_CONFIG, SillyTavernConfig
from tavernkit.silly_tavern.providers._converters.messages import (
    Messages,
    copied,
    printed_content,
    string_content,
    tool_calls,
)
from tavernkit.silly_tavern.providers._converters.names import EXAMPLE_ASSISTANT, EXAMPLE_USER, PromptNames

TOOL_ID_LENGTH = 9


def convert_mistral(messages: object, *, names: PromptNames, config: SillyTavernConfig = DEFAULT_CONFIG) -> Messages:
    """Shorten tool ids, write names into messages, and reorder roles as Mistral requires."""
    if not isinstance(messages, list):
        return []
    turns = copied(messages)  # pyright: ignore[reportUnknownArgumentType]  # copied() checks
    if config.mistral_enable_prefix and turns and turns[-1].get("role") == "assistant":
        turns[-1]["prefix"] = True
    for turn in turns:
        _shorten_tool_ids(turn)
        _write_name(turn, names)
    _fold_users_after_tools(turns)
    for before, turn in pairwise(turns):
        if before.get("role") == "assistant" and turn.get("role") == "system":
            turn["role"] = "user"
    return turns


def _shorten_tool_ids(turn: JsonObject) -> None:
    if is_list(turn.get("tool_calls")):
        for call in tool_calls(turn):
            call["id"] = _short_id(call.get("id"))
    if turn.get("role") == "tool":
        turn["tool_call_id"] = _short_id(turn.get("tool_call_id"))


def _short_id(value: Json) -> str:
    # A lone surrogate is hashed as the replacement character, as in Node.
    text = to_string(value).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return hashlib.sha512(text.encode()).hexdigest()[:TOOL_ID_LENGTH]


def _write_name(turn: JsonObject, names: PromptNames) -> None:
    name = turn.get("name")
    if turn.get("role") == "system":
        if name in (EXAMPLE_USER, EXAMPLE_ASSISTANT):
            names.name_example(turn)
            del turn["name"]
        return
    prefix = to_string(name) + ": "
    if name and not string_content(turn).startswith(prefix):
        turn["content"] = prefix + string_content(turn)
        del turn["name"]


def _fold_users_after_tools(turns: Messages) -> None:
    index = 1
    while index < len(turns):
        if turns[index].get("role") == "user" and turns[index - 1].get("role") == "tool":
            earlier = next(
                (
                    turn
                    for turn in reversed(turns[:index])
                    if turn.get("role") == "user" and truthy(turn.get("content"))
                ),
                None,
            )
            if earlier is not None:
                earlier["content"] = printed_content(earlier) + "\n\n" + printed_content(turns[index])
                del turns[index]
                continue
        index += 1
