"""Makes a prompt fit as RisuAI does: the oldest chat items go first; what is left over after assembly is blanked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tavernkit.risu_ai.prompt_message import PromptMessage
from tavernkit.risu_ai.token_counting import MessageCounter


@dataclass(frozen=True, slots=True)
class Dropped:
    """A chat item that went for want of room, and what it cost."""

    message: PromptMessage
    tokens: int


@dataclass(frozen=True, slots=True)
class Trimmed:
    """What is left. ``required_tokens`` is set when it does not fit and nothing more may go."""

    messages: list[PromptMessage]
    total: int
    dropped: tuple[Dropped, ...] = ()
    required_tokens: int | None = None


def drop_oldest(messages: Sequence[PromptMessage], total: int, limit: int, counter: MessageCounter) -> Trimmed:
    """Drop chat items from the front until the total fits; the last one stays."""
    dropped: list[Dropped] = []
    while total > limit:
        if len(messages) - len(dropped) <= 1:
            return Trimmed(list(messages[len(dropped) :]), total, tuple(dropped), total)
        oldest = messages[len(dropped)]
        tokens = counter.message(oldest)
        dropped.append(Dropped(oldest, tokens))
        total -= tokens
    return Trimmed(list(messages[len(dropped) :]), total, tuple(dropped))


def blank_removable(messages: Sequence[PromptMessage], limit: int, counter: MessageCounter) -> Trimmed:
    """Blank removable messages from the top until the finished list fits, and leave blank ones out."""
    total = counter.messages(messages)
    dropped: list[Dropped] = []
    for message in messages:
        if total <= limit:
            break
        if message.removable:
            tokens = counter.message(message)
            dropped.append(Dropped(message.copy(), tokens))
            total -= tokens
            message.content = ""
    else:
        if total > limit:
            return Trimmed(list(messages), total, tuple(dropped), total)
    if not dropped:
        return Trimmed(list(messages), total)
    return Trimmed([message for message in messages if message.content or message.multimodals], total, tuple(dropped))
