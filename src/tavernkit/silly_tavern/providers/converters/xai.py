"""Messages for xAI's API, as SillyTavern makes them."""

from __future__ import annotations

from tavernkit.silly_tavern.providers.converters.messages import Messages, copied, string_content
from tavernkit.silly_tavern.providers.converters.names import PromptNames


def convert_xai(messages: object, *, names: PromptNames) -> Messages:
    """Write names into messages; the names of user messages stay as they are."""
    if not isinstance(messages, list):
        return []
    turns = copied(messages)  # pyright: ignore[reportUnknownArgumentType]  # copied() checks
    for turn in turns:
        if not turn.get("name") or turn.get("role") == "user":
            continue
        if turn.get("role") == "assistant" and names.char_name:
            turn["content"] = names.as_character(string_content(turn))
        names.name_example(turn)
        del turn["name"]
    return turns
