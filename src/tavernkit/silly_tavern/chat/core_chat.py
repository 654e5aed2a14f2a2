"""The part of a chat that goes into a prompt, with each message's text made ready."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tavernkit.silly_tavern.chat.attachments import FILE_SEPARATOR, attached_files, titles
from tavernkit.silly_tavern.chat.chat_message import ChatMessage
from tavernkit.silly_tavern.chat.reasoning import ReasoningSettings
from tavernkit.silly_tavern.scripts.prompt_scripts import PromptScripts
from tavernkit.text.traced import added

EMPTY_REASONING = "\u200b"
"""Stands for reasoning that was hidden by the provider."""

NAMES_NONE, NAMES_DEFAULT, NAMES_FIELD, NAMES_CONTENT = -1, 0, 1, 2
"""How a preset's ``names_behavior`` shows who speaks."""


@dataclass(slots=True)
class CoreMessage:
    """A message of the core chat: its line, its place in the stored chat, and its text for this prompt.

    ``file_length`` counts the characters that attached files have in it.
    """

    line: ChatMessage
    index: int
    text: str
    file_length: int = 0


def core_chat(chat: Sequence[ChatMessage], *, generation_type: str, with_tools: bool) -> list[CoreMessage]:
    """Leave out hidden messages (tool calls stay where they are supported); a swipe drops the last one left."""
    core = [
        CoreMessage(line, index, line.mes)
        for index, line in enumerate(chat)
        if not line.is_system or (with_tools and line.tool_invocations is not None)
    ]
    if generation_type == "swipe" and core:
        core.pop()
    return core


def prepare_texts(
    core: Sequence[CoreMessage],
    *,
    generation_type: str,
    scripts: PromptScripts | None,
    file_text: Callable[[CoreMessage, Sequence[Mapping[str, object]]], str],
) -> None:
    """Apply the prompt-stage scripts, then put attached files before each text and titles behind it.

    ``file_text`` gives the joined text of a message's files.
    """
    newest_depth = -1 if generation_type == "continue" else 0
    for position, message in enumerate(core):
        line = message.line
        if scripts is not None:
            depth = len(core) - 1 - position + newest_depth
            message.text = scripts.message(message.text, is_user=line.is_user, depth=depth)
        if line.extra:
            files = attached_files(line.extra)
            if files:
                text = file_text(message, files)
                message.file_length = len(text)
                message.text = text + FILE_SEPARATOR + message.text
            message.text += titles(line.extra)


def add_reasoning(
    core: Sequence[CoreMessage],
    settings: ReasoningSettings,
    *,
    generation_type: str,
    only_name: str | None,
    expand: Callable[[str], str],
    scripts: PromptScripts | None,
) -> None:
    """Put stored reasoning before the newest texts that have some; the message being continued always gets its own.

    ``only_name`` is the speaker in a group: the others' reasoning stays out.
    """
    continuing = generation_type == "continue"
    added = 0
    for back, message in enumerate(reversed(core)):
        continued = continuing and back == 0
        if not continued and not (settings.add_to_prompts and added < settings.max_additions):
            return
        reasoning = message.line.extra.get("reasoning")
        if not isinstance(reasoning, str) or reasoning in ("", EMPTY_REASONING):
            continue
        if only_name is not None and message.line.name != only_name:
            continue
        if scripts is not None:
            reasoning = scripts.reasoning(reasoning, depth=back - 1 if continuing else back)
            if not reasoning:
                continue
        message.text = _with_reasoning(reasoning, message.text, settings, continued, expand)
        added += 1


def role_of(line: ChatMessage) -> str:
    """The role a message is sent with."""
    if line.narrator:
        return "system"
    return "user" if line.is_user else "assistant"


def name_prefix(line: ChatMessage, names_behavior: int, *, user_name: str, in_group: bool) -> str:
    """What a preset's names behaviour puts before a message's text."""
    if names_behavior == NAMES_CONTENT:
        return "" if line.narrator else line.name + added(": ", "names_behavior")
    if names_behavior != NAMES_DEFAULT or line.name == user_name:
        return ""
    if in_group or (line.force_avatar and not line.narrator):
        return line.name + added(": ", "names_behavior")
    return ""


def _with_reasoning(
    reasoning: str, text: str, settings: ReasoningSettings, continued: bool, expand: Callable[[str], str]
) -> str:
    prefix = expand(settings.prefix)
    if continued and not text:
        return prefix + reasoning
    return prefix + reasoning + expand(settings.suffix) + expand(settings.separator) + text
