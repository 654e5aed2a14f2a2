"""The history of a tool loop."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import cast

from tavernkit._values import is_mapping
from tavernkit.errors import ConfigError
from tavernkit.prompt._message import Message
from tavernkit.stores._history import HistoryLike, to_message

CARRIED_KEYS = ("signature", "thinking", "reasoning_details")
"""Fields that a provider expects back with its tool calls."""


def history_messages(history: HistoryLike) -> list[Message]:
    """Read a history; a mapping without a role is the user's."""
    if history is None:
        return []
    if isinstance(history, (str, bytes, Mapping)) or not hasattr(history, "__iter__"):
        raise ConfigError("history must be a list of messages or a ChatHistory")
    return [_message(each) for each in cast("Iterable[object]", history)]


def _message(value: object) -> Message:
    if is_mapping(value):
        content = value.get("content")
        value = {**value, "role": value.get("role") or "user", "content": "" if content is None else content}
    return to_message(value)  # pyright: ignore[reportArgumentType]  # it refuses what it cannot read
