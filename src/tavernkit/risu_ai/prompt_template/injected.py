"""Texts an application puts into the prompt by itself."""

from __future__ import annotations

from tavernkit.risu_ai.chat.prompt_message import PromptMessage, source_of
from tavernkit.risu_ai.prompt_template.printing import splice
from tavernkit.risu_ai.state import RisuState


def inject_into_chat(state: RisuState) -> None:
    """Put injections into the chat, as deep from its end as they say."""
    for depth, message in _messages(state, "chat"):
        splice(state.slots.chats, max(len(state.slots.chats) - depth, 0), message)


def inject_around(state: RisuState, messages: list[PromptMessage]) -> None:
    """Put injections before everything, or behind it."""
    messages[:0] = [message for _, message in _messages(state, "before")]
    messages += [message for _, message in _messages(state, "after")]


def _messages(state: RisuState, position: str) -> list[tuple[int, PromptMessage]]:
    registry = state.context.injections
    if registry is None:
        return []
    found: list[tuple[int, PromptMessage]] = []
    for injection in registry:
        if injection.position == position and injection.active_for(state):
            where = f"in the chat at depth {injection.depth}" if position == "chat" else f"{position} everything"
            source = source_of("injection", "injection", where, name=injection.id, id=injection.id)
            content = state.texts(injection.content)
            found.append((injection.depth, PromptMessage(role=injection.role, content=content, source=source)))
    return found
