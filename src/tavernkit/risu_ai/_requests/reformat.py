"""Rewrites roles for models that cannot take system messages everywhere, or want roles to alternate."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tavernkit._text.traced import join
from tavernkit.errors import Warn, log_warning
from tavernkit.risu_ai._chat.prompt_message import PromptMessage, source_of
from tavernkit.risu_ai._js import replace_first
from tavernkit.risu_ai._models import ALTERNATE_ROLE, FIRST_SYSTEM, FULL_SYSTEM, STARTS_WITH_USER
from tavernkit.risu_ai.errors import RequestFormatError

SLOT = "{{slot}}"
DEFAULT_SYSTEM_CONTENT = "system: {{slot}}"
DEFAULT_SYSTEM_ROLE = "user"


def copied(messages: Sequence[PromptMessage]) -> list[PromptMessage]:
    """Copy messages; one that is shown twice stays one, so that a change to it shows in both places."""
    copies: dict[int, PromptMessage] = {}
    return [copies.setdefault(id(message), message.copy()) for message in messages]


def reformat(
    messages: Sequence[PromptMessage],
    flags: Collection[str],
    *,
    system_content: str = DEFAULT_SYSTEM_CONTENT,
    system_role: str = DEFAULT_SYSTEM_ROLE,
    warn: Warn = log_warning,
    strict: bool = False,
) -> list[PromptMessage]:
    """Return the messages as a model with these flags gets them; the given ones are not changed.

    ``system_content`` and ``system_role`` are what becomes of a system message the model cannot take. RisuAI crashes
    on a list of nothing but system messages, or of nothing at all, when the model takes only a first one: here they
    are joined, and strict mode raises.
    """
    found = copied(messages)
    first: PromptMessage | None = None
    if FULL_SYSTEM not in flags:
        if FIRST_SYSTEM in flags:
            first, found = _take_leading_system(found, warn, strict)
        for message in found:
            if message.role == "system":
                _rewrite_system(message, system_content, system_role)
    if ALTERNATE_ROLE in flags:
        found = _merge_equal_roles(found)
    if STARTS_WITH_USER in flags and (not found or found[0].role != "user"):
        source = source_of("request", "blank user message", "the model must start with the user")
        found.insert(0, PromptMessage(role="user", content=" ", source=source))
    return found if first is None else [first, *found]


def _take_leading_system(
    messages: list[PromptMessage], warn: Warn, strict: bool
) -> tuple[PromptMessage | None, list[PromptMessage]]:
    count = next((index for index, message in enumerate(messages) if message.role != "system"), len(messages))
    if count == len(messages):
        problem = "the prompt has nothing but system messages, which RisuAI cannot send to this model"
        if strict:
            raise RequestFormatError(problem)
        warn(f"{problem}; they are sent as one")
    if count == 0:
        return None, messages
    leading = messages[:count]
    # The first keeps its memo: a start line alone is blanked later, one behind other texts is sent.
    leading[0].content = join("\n\n", (message.content for message in leading))
    return leading[0], messages[count:]


def _rewrite_system(message: PromptMessage, content: str, role: str) -> None:
    message.content = replace_first(content, SLOT, message.content) if content else "system: " + message.content
    message.role = role


def _merge_equal_roles(messages: list[PromptMessage]) -> list[PromptMessage]:
    merged: list[PromptMessage] = []
    for message in messages:
        if not merged or merged[-1].role != message.role:
            merged.append(message)
            continue
        last = merged[-1]
        last.content = join("\n", (last.content, message.content))
        last.thoughts += message.thoughts
        last.multimodals += message.multimodals
        last.cache_point = last.cache_point or message.cache_point
    return merged
