"""Long-term memory, or plain trimming."""

from __future__ import annotations

from tavernkit.prompt.step import NoConfig, Step
from tavernkit.risu_ai.build_context import REFERENCE
from tavernkit.risu_ai.state import RisuState
from tavernkit.risu_ai.trimming import drop_oldest


class MemoryStep(Step[RisuState, NoConfig]):
    """Makes the chat fit: with the memory the character uses, else by dropping its oldest items.

    Reads ``slots.chats``, ``total``, ``preset``. Writes ``slots.chats``, ``slots.memory``, ``slots.last_chat``,
    ``dropped`` and ``last_memory``. A chat that cannot be made to fit raises :class:`MaxTokensExceededError`, unless
    ``on_overflow`` is ``return``.
    """

    name = "memory"

    def before(self, state: RisuState) -> None:
        """Fit the chat into the context."""
        if state.stopped:
            return
        if state.context.strategy == REFERENCE:
            _trim(state)
        slots = state.slots
        slots.chats = [message for message in slots.chats if not message.blank]
        if state.template is None and slots.chats:
            slots.last_chat.append(slots.chats.pop())
        for message in slots.chats:
            message.removable = True


def _trim(state: RisuState) -> None:
    trimmed = drop_oldest(state.slots.chats, state.total, state.preset.max_context, state.counter)
    state.slots.chats = trimmed.messages
    state.total = trimmed.total
    state.dropped += trimmed.dropped
    if trimmed.required_tokens is not None:
        state.refuse(trimmed.required_tokens)
    state.last_memory = trimmed.messages[0].memo if trimmed.messages else None
