"""Forms of messages: merged, semi-strict, strict, single, and one text."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence

from tavernkit._dataclass import dataclass
from tavernkit._text.js_values import UNDEFINED, json_stringify, to_string, truthy
from tavernkit._text.traced import join
from tavernkit._values import Json, JsonObject, is_list, is_object
from tavernkit.silly_tavern.providers._chat.messages import (
    EXAMPLE_ASSISTANT,
    EXAMPLE_USER,
    SEPARATOR,
    Messages,
    PromptNames,
    copied,
    part_text,
    printed_content,
    text_of,
    with_prefix,
)
from tavernkit.silly_tavern.providers._request import DEFAULT_CONFIG, SillyTavernConfig

MEDIA_PARTS = ("image_url", "video_url", "audio_url")
TOKEN_LENGTH = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeOptions:
    """How messages are merged: one system message at most, placeholders, everything as user, tools kept."""

    strict: bool = False
    placeholders: bool = False
    single: bool = False
    tools: bool = False


POST_PROCESSING_TYPES: Mapping[str, MergeOptions] = {
    "merge": MergeOptions(),
    "claude": MergeOptions(),  # the old name of "merge"
    "merge_tools": MergeOptions(tools=True),
    "semi": MergeOptions(strict=True),
    "semi_tools": MergeOptions(strict=True, tools=True),
    "strict": MergeOptions(strict=True, placeholders=True),
    "strict_tools": MergeOptions(strict=True, placeholders=True, tools=True),
    "single": MergeOptions(strict=True, single=True),
}
"""The types a user can choose, by SillyTavern's names."""


def post_process(
    messages: Sequence[JsonObject], kind: str, names: PromptNames, config: SillyTavernConfig = DEFAULT_CONFIG
) -> Messages:
    """Convert messages as a post-processing type requires; an unknown type changes nothing."""
    options = POST_PROCESSING_TYPES.get(kind)
    return copied(messages) if options is None else merge_messages(messages, names, options, config)


def merge_messages(
    messages: Sequence[JsonObject],
    names: PromptNames,
    options: MergeOptions,
    config: SillyTavernConfig = DEFAULT_CONFIG,
) -> Messages:
    """Flatten, name and join messages of the same role."""
    media = _MediaTokens()
    flat = [_flatten(message, names, options, media) for message in copied(messages)]
    merged = _squash(flat)
    if not merged:
        merged.append({"role": "user", "content": config.prompt_placeholder})
    for message in merged:
        message["content"] = media.restore(text_of(message))
    if not options.strict:
        return merged
    # All system messages after the first message, even if that is not one.
    for message in merged[1:]:
        if message.get("role") == "system":
            message["role"] = "user"
    if options.placeholders:
        _add_placeholder(merged, config.prompt_placeholder)
    return merge_messages(merged, names, MergeOptions(tools=options.tools), config)


def _flatten(message: JsonObject, names: PromptNames, options: MergeOptions, media: _MediaTokens) -> JsonObject:
    content = message.get("content")
    message["content"] = media.flatten(content) if is_list(content) else text_of(message)
    names.name_example(message)
    text = text_of(message)
    name, role = message.get("name"), message.get("role")
    if name and role != "system":
        text = with_prefix(text, to_string(name))
    if role == "tool" and not options.tools:
        role = "user"
    if options.single:
        text = _single(text, role, names)
        role = "user"
    message["role"] = role
    message["content"] = text
    message.pop("name", None)
    if not options.tools:
        message.pop("tool_calls", None)
        message.pop("tool_call_id", None)
    return message


def _single(text: str, role: Json, names: PromptNames) -> str:
    # An empty message gets a name too; texts of the system get none, although they are sent as the user's.
    if role == "assistant" and names.char_name and not names.starts_with_group_name(text):
        return with_prefix(text, names.char_name)
    if role == "user" and names.user_name:
        return with_prefix(text, names.user_name)
    return text


def _squash(messages: Messages) -> Messages:
    squashed: Messages = []
    for message in messages:
        before = squashed[-1] if squashed else None
        text = text_of(message)
        # An empty message is never appended, but the next one is appended to it, after a blank line.
        if before is not None and before.get("role") == message.get("role") and text and message.get("role") != "tool":
            # Everything else in the appended message is lost in SillyTavern, even its tool calls.
            before["content"] = text_of(before) + SEPARATOR + text
        else:
            squashed.append(message)
    return squashed


def _add_placeholder(messages: Messages, placeholder: str) -> None:
    filler: JsonObject = {"role": "user", "content": placeholder}
    first = messages[0].get("role")
    if first == "system":
        if len(messages) == 1 or messages[1].get("role") != "user":
            messages.insert(1, filler)
    elif first != "user":
        messages.insert(0, filler)


class _MediaTokens:
    """Replaces pictures, videos and audio with tokens while texts are joined, then puts them back."""

    def __init__(self) -> None:
        self._parts: dict[str, Json] = {}

    def flatten(self, parts: Sequence[Json]) -> str:
        return join(SEPARATOR, (self._as_text(part) for part in parts))

    def _as_text(self, part: Json) -> str:
        if is_object(part) and part.get("type") in MEDIA_PARTS:
            token = secrets.token_hex(TOKEN_LENGTH // 2)
            self._parts[token] = part
            return token
        return part_text(part)

    def restore(self, text: str) -> Json:
        if not any(token in text for token in self._parts):
            return text
        content: list[Json] = []
        for piece in text.split(SEPARATOR):
            # A name may be joined to a token: SillyTavern then loses the picture; we keep both.
            media = self._parts.get(piece[-TOKEN_LENGTH:])
            words = piece if media is None else piece[:-TOKEN_LENGTH]
            if words or media is None:
                _add_text(content, words)
            if media is not None:
                content.append(media)
        return content


def _add_text(content: list[Json], text: str) -> None:
    last = content[-1] if content else None
    if is_object(last) and last.get("type") == "text":
        last["text"] = part_text(last) + SEPARATOR + text
    else:
        content.append({"type": "text", "text": text})


def to_text_prompt(messages: Json) -> Json:
    """Write messages as lines of a text for the assistant to continue; a text is returned unchanged."""
    if not is_list(messages):
        return messages
    lines = [_line(message) for message in messages if is_object(message)]
    return join("\n", lines) + "\nassistant:"


def _line(message: JsonObject) -> str:
    # Only names of system messages are written, and a name of null is written as "null".
    if message.get("role") == "system":
        speaker = "System" if "name" not in message else to_string(message["name"])
    else:
        speaker = to_string(message.get("role", UNDEFINED))
    return join("", (speaker, ": ", printed_content(message)))


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
        # Without marks, everything but the last message counts as the system's.
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
        _claude_line(turn, index, exclude_prefixes=exclude_prefixes, first_message=index == first_message)
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
    # The mark goes to the user's message before the first reply, but not to the very first message.
    if exclude_prefixes or first_assistant is None or first_assistant - 1 <= 0:
        return None
    return first_assistant - 1 if turns[first_assistant - 1].get("role") == "user" else None


def _claude_line(turn: JsonObject, index: int, *, exclude_prefixes: bool, first_message: bool) -> str:
    role, name = turn.get("role"), turn.get("name")
    speaker = f"{to_string(name)}: " if name and role != "system" else ""
    mark = _claude_mark(role, name, index, exclude_prefixes=exclude_prefixes)
    return f"{FIRST_MESSAGE if first_message else mark}{speaker}{text_of(turn)}"


def _claude_mark(role: object, name: object, index: int, *, exclude_prefixes: bool) -> str:
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
