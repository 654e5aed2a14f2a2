"""Example dialogue of a character, as messages."""

from __future__ import annotations

from collections.abc import Callable

from tavernkit.risu_ai.prompt_message import NEW_EXAMPLE_MEMO, PromptMessage, new_chat_line, source_of
from tavernkit.text.js_values import js_lower, trim, trim_start

_SOURCE = source_of("chat", "example", "example dialogue of the character")
_CHARACTER_TAGS, _USER_TAGS = ("{{char}}:", "<bot>:"), ("{{user}}:", "<user>:")


def example_messages(text: str, name: str, expand: Callable[[str], str]) -> list[PromptMessage]:
    """Read the example dialogue of a character called ``name``; ``expand`` is applied to every text.

    As in RisuAI, what follows a second colon on a speaker's line is lost, a name counts only if it has no capitals,
    and lines before the first speaker are dropped.
    """
    if not text:
        return []
    messages: list[PromptMessage] = []
    current: PromptMessage | None = None
    for line in map(trim, text.split("\n")):
        lowered = js_lower(line)
        if lowered == "<start>":
            messages.append(new_chat_line(NEW_EXAMPLE_MEMO))
            current = None
        elif lowered.startswith((*_CHARACTER_TAGS, f"{name}:")):
            current = _speech("assistant", line)
            messages.append(current)
        elif lowered.startswith(_USER_TAGS):
            current = _speech("user", line)
            messages.append(current)
        elif current is not None:
            current.content += f"\n{line}"
    for message in messages:
        message.content = expand(message.content)
    return messages


def _speech(role: str, line: str) -> PromptMessage:
    return PromptMessage(role=role, content=trim_start(line.split(":")[1]), name=f"example_{role}", source=_SOURCE)
