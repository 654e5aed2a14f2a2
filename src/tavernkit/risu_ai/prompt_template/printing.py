"""The list of messages a template prints into: the push rule, cache points, depths."""

from __future__ import annotations

from collections.abc import Iterable, MutableSequence
from typing import TypeVar

from tavernkit.risu_ai.prompt_message import PromptMessage, explained

T = TypeVar("T")

AUTOMATIC_CACHE_POINTS = 3


def merges_system(model: str) -> bool:
    """Whether neighbouring system messages are joined for a model."""
    return model.startswith(("gpt", "claude")) or model in {"openrouter", "reverse_proxy"}


class Printer:
    """Collects messages. Joining edits the message that is already there, wherever else it is shown."""

    def __init__(self, model: str) -> None:
        self.messages: list[PromptMessage] = []
        self._merges = merges_system(model)

    def push(self, messages: Iterable[PromptMessage], place: str = "") -> None:
        """Print messages; blank ones are left out. ``place`` is what explanations say of where that is."""
        for message in messages:
            if message.blank:
                continue
            last = self.messages[-1] if self.messages else None
            message.printed += (place,)
            if last is not None and self._merges and _joinable(last, message):
                last.content = f"{last.content}\n\n{message.content}"
                last.merged += (explained(message.source, place, place=place) if place else message.source,)
            else:
                self.messages.append(message)

    def mark_cache(self, depth: float, role: str) -> None:
        """Put a cache point on the latest messages of a role."""
        for message in reversed(self.messages):
            if depth <= 0:
                return
            if role in {"all", message.role}:
                message.cache_point = True
                depth -= 1


def _joinable(last: PromptMessage, message: PromptMessage) -> bool:
    return last.role == message.role == "system" and last.memo == message.memo and last.name == message.name


def systemize(messages: Iterable[PromptMessage]) -> None:
    """Turn what was said into system messages that tell who said it; the messages themselves are changed."""
    for message in messages:
        if message.role not in {"user", "assistant"}:
            continue
        if message.name is not None and message.name.startswith("example_"):
            message.content = f"{message.name}: {message.content}"
        elif "nameAdded" not in message.attr:
            message.content = f"{message.role}: {message.content}"
        message.role, message.memo, message.name = "system", None, None


def splice(items: MutableSequence[T], index: float, item: T) -> None:
    """Insert as JavaScript's ``splice`` does: a negative index counts from the end, no number is the start."""
    if index != index:
        index = 0
    place = max(len(items) + index, 0) if index < 0 else min(index, len(items))
    items.insert(int(place), item)
