"""The old Claude text form, which SillyTavern still uses to count tokens."""

from __future__ import annotations

from collections.abc import Sequence

from tavernkit._text.js_values import json_stringify, to_string, truthy
from tavernkit._values import JsonObject
from tavernkit.silly_tavern.providers._converters.messages import Messages, copied, text_of
from tavernkit.silly_tavern.providers._converters.names import EXAMPLE_ASSISTANT, EXAMPLE_USER

HUMAN = "\n\nHuman: "
ASSISTANT = "\n\nAssistant: "
FIRST_MESSAGE = "\n\nFirst message: "


def convert_claude_text(
    messages: Sequence[JsonObject],
    *,
    add_assistant_postfix: bool = False,
    prefill: str = "",
    with_system_prompt_support: bool = False,
    use_system_prompt: bool = False,
    system_human_message: str = "",
    exclude_prefixes: bool = False,
) -> str:
    """Write messages as one text with ``Human:`` and ``Assistant:`` marks, for models before Anthropic's messages.

    Args:
        messages: Messages in OpenAI's shape.
        add_assistant_postfix: End with a message of the assistant.
        prefill: The text of that message.
        with_system_prompt_support: The model knows system prompts.
        use_system_prompt: Begin with one, if the model knows them.
        system_human_message: What the user says if nobody speaks before the assistant.
        exclude_prefixes: Write no marks.
    """
    turns = copied(messages)
    for turn in turns:
        turn["content"] = text_of(turn)
        if truthy(turn.get("tool_calls")):
            turn["content"] = f"{turn['content']}{json_stringify(turn['tool_calls'])}"
    first_message: int | None = None
    if turns:
        for turn in turns[:-1] if exclude_prefixes else turns[:1]:
            turn["role"] = "system"
        if add_assistant_postfix:
            turns.append({"role": "assistant", "content": prefill})
        first_message = _place_first_human(
            turns,
            as_system=with_system_prompt_support and use_system_prompt,
            human=system_human_message,
            exclude_prefixes=exclude_prefixes,
        )
    return "".join(
        _line(turn, index, exclude_prefixes=exclude_prefixes, first_message=index == first_message)
        for index, turn in enumerate(turns)
    )


def _place_first_human(turns: Messages, *, as_system: bool, human: str, exclude_prefixes: bool) -> int | None:
    first_assistant = next((i for i, turn in enumerate(turns) if turn.get("role") == "assistant" and i > 0), None)
    if as_system:
        turns[0]["role"] = "system"
        before = turns[:first_assistant] if first_assistant is not None else turns
        spoken = any(turn.get("role") == "user" or HUMAN in text_of(turn) for turn in before)
        if first_assistant is not None and human and not spoken:
            turns.insert(first_assistant, {"role": "user", "content": human})
        return None
    turns[0]["role"] = "user"
    if exclude_prefixes or first_assistant is None or first_assistant - 1 <= 0:
        return None
    return first_assistant - 1 if turns[first_assistant - 1].get("role") == "user" else None


def _line(turn: JsonObject, index: int, *, exclude_prefixes: bool, first_message: bool) -> str:
    role, name = turn.get("role"), turn.get("name")
    speaker = f"{to_string(name)}: " if name and role != "system" else ""
    mark = _mark(role, name, index, exclude_prefixes=exclude_prefixes)
    return f"{FIRST_MESSAGE if first_message else mark}{speaker}{text_of(turn)}"


def _mark(role: object, name: object, index: int, *, exclude_prefixes: bool) -> str:
    if role == "assistant":
        return ASSISTANT
    if role == "user":
        return HUMAN
    if role != "system" or index == 0:
        return ""
    if name == EXAMPLE_ASSISTANT:
        return "\n\nA: "
    if name == EXAMPLE_USER:
        return "\n\nH: "
    return f"\n\n{to_string(name)}: " if exclude_prefixes and name else "\n\n"
