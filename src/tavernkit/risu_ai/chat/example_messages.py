"""Example dialogue of a character, as messages."""

from __future__ import annotations

from collections.abc import Callable

from tavernkit.risu_ai.chat.prompt_message import NEW_EXAMPLE_MEMO, PromptMessage, new_chat_line, source_of
from tavernkit.text.js_values import js_lower, trim, trim_start
from tavernkit.text.traced import join

_SOURCE = source_of("chat", "example", "example dialogue of the character")
_CHARACTER_TAGS, _USER_TAGS = ("{{char}}:", "<bot>:"), ("{{user}}:", "<user>:")


def example_messages(text: str, name: str, expand: Callable[[str], str]) -> list[PromptMessage]:
    """Read the example dialogue of a character called ``name``; ``expand`` is applied to every text.

    As in RisuAI, what follows a second colon on a speaker's line is lost, a name counts only if it has no capitals,
    and lines before the first speaker are dropped.
    """
    if not text:
        return []
    speeches: list[tuple[PromptMessage, list[str]]] = []
    lines: list[str] | None = None
    character_tags = (*_CHARACTER_TAGS, f"{name}:")
    tags = (*character_tags, *_USER_TAGS)
    for line in map(trim, text.split("\n")):
        lowered = js_lower(line)
        if lowered == "<start>":
            speeches.append((new_chat_line(NEW_EXAMPLE_MEMO), []))
            lines = None
        elif lowered.startswith(tags):
            lines = []
            role = "assistant" if lowered.startswith(character_tags) else "user"
            speeches.append((_speech(role, line), lines))
        elif lines is not None:
            lines.append(line)
    for message, more in speeches:
        message.content = expand(join("\n", [message.content, *more]))
    return [message for message, _ in speeches]


def _speech(role: str, line: str) -> PromptMessage:
    return PromptMessage(role=role, content=trim_start(line.split(":")[1]), name=f"example_{role}", source=_SOURCE)
