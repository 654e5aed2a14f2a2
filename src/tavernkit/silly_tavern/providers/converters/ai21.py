"""Messages for AI21's API, as SillyTavern makes them."""

from __future__ import annotations

from tavernkit.silly_tavern.providers.config import DEFAULT_CONFIG, SillyTavernConfig
from tavernkit.silly_tavern.providers.converters.messages import Messages, copied, printed_content, string_content
from tavernkit.silly_tavern.providers.converters.names import PromptNames, with_prefix
from tavernkit.text.js_values import to_string, trim

SEPARATOR = "\n\n"


def convert_ai21(messages: object, *, names: PromptNames, config: SillyTavernConfig = DEFAULT_CONFIG) -> Messages:
    """Join the leading system messages into one, write names into messages and merge neighbours."""
    if not isinstance(messages, list):
        return []
    turns = copied(messages)  # pyright: ignore[reportUnknownArgumentType]  # copied() checks
    system = ""
    while turns and turns[0].get("role") == "system":
        first = turns.pop(0)
        names.name_example(first)
        system += printed_content(first) + SEPARATOR
    if not turns:
        turns.append({"role": "user", "content": config.prompt_placeholder})
    if system:
        turns.insert(0, {"role": "system", "content": trim(system)})
    for turn in turns:
        if "name" in turn:
            name = turn.pop("name")
            if turn.get("role") != "system":
                turn["content"] = with_prefix(string_content(turn), to_string(name))
    merged: Messages = []
    for turn in turns:
        if merged and merged[-1].get("role") == turn.get("role"):
            merged[-1]["content"] = f"{printed_content(merged[-1])}{SEPARATOR}{printed_content(turn)}"
        else:
            merged.append(turn)
    return merged
