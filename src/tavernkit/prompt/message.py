"""A chat message as dialects see it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import TypeAlias

from tavernkit.errors import ConfigError
from tavernkit.values import (
    FrozenJson,
    FrozenObject,
    JsonObject,
    freeze,
    freeze_object,
    is_mapping,
    is_sequence,
    shown,
    thaw,
)

SendDate: TypeAlias = date | int | float | str
"""When a message was sent: a date or time, a number (seconds or milliseconds, as the source has it) or text."""

KNOWN_ROLES = ("system", "user", "assistant", "tool", "function")
"""The roles dialects know. Any other name is allowed and passed on."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message: who speaks and what is said, plus what tools and media need.

    ``metadata`` keys that dialects read: ``tool_calls`` (in OpenAI's shape), ``tool_call_id``, ``signature``.
    Attachments and metadata are copied and frozen deeply.
    """

    role: str
    content: str
    name: str | None = None
    swipes: Sequence[str] | None = None
    swipe_id: int | None = None
    send_date: SendDate | None = None
    attachments: Sequence[FrozenJson] | None = None
    metadata: FrozenObject | None = None

    def __post_init__(self) -> None:
        require(self.role, str, "Message.role", "text such as 'user'")
        require(self.content, str, "Message.content", "text")
        if self.name is not None:
            require(self.name, str, "Message.name", "text or None")
        if self.swipes is not None:
            object.__setattr__(self, "swipes", _texts(self.swipes))
        if self.swipe_id is not None:
            require(self.swipe_id, int, "Message.swipe_id", "an integer or None")
        if self.send_date is not None and not isinstance(self.send_date, (date, int, float, str)):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
            raise ConfigError(f"Message.send_date must be a date, number, text or None, not {self.send_date!r}")
        if self.attachments is not None:
            object.__setattr__(self, "attachments", frozen_list(self.attachments, "Message.attachments"))
        if self.metadata is not None:
            object.__setattr__(self, "metadata", frozen_mapping(self.metadata, "Message.metadata"))

    def replace(self, **changes: object) -> Message:
        """Return a changed copy."""
        return dataclasses.replace(self, **changes)  # pyright: ignore[reportArgumentType]  # checked in __post_init__

    def to_dict(self) -> dict[str, str]:
        """Role, content and a name that is not empty."""
        plain = {"role": self.role, "content": self.content}
        if self.name:
            plain["name"] = self.name
        return plain

    def to_serializable_dict(self) -> JsonObject:
        """Everything that is set, ready for :mod:`json`; dates in ISO 8601."""
        plain: JsonObject = {}
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if value is not None:
                plain[field.name] = value.isoformat() if isinstance(value, date) else thaw(value)
        return plain


def require(value: object, kind: type, what: str, wanted: str) -> None:
    """Refuse a value of the wrong type, saying what to pass (a bool is no integer)."""
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise ConfigError(f"{what} must be {wanted}, not {type(value).__name__} {shown(value)}")


def frozen_list(value: object, what: str) -> tuple[FrozenJson, ...]:
    """Freeze a list deeply, or refuse what is not one."""
    if not is_sequence(value):
        raise ConfigError(f"{what} must be a list or None, not {type(value).__name__}")
    return tuple(freeze(item) for item in value)


def frozen_mapping(value: object, what: str) -> FrozenObject:
    """Freeze a mapping deeply, or refuse what is not one."""
    if not is_mapping(value):
        raise ConfigError(f"{what} must be a mapping or None, not {type(value).__name__}")
    return freeze_object(value)


def _texts(value: object) -> tuple[str, ...]:
    if not is_sequence(value):
        raise ConfigError(f"Message.swipes must be a list of texts or None, not {type(value).__name__}")
    for item in value:
        require(item, str, "Message.swipes", "a list of texts")
    return tuple(str(item) for item in value)
