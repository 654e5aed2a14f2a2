"""A chat message as dialects see it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from datetime import date
from typing import TypeAlias

from tavernkit._dataclass import dataclass, short_repr
from tavernkit._values import FrozenJson, FrozenObject, JsonObject, freeze, freeze_object, thaw

SendDate: TypeAlias = date | int | float | str
"""When a message was sent: a date or time, a number (seconds or milliseconds, as in the source) or text."""

_NOTHING = (None,) * 6


@dataclass(frozen=True, slots=True)
class Message:
    """One message: who speaks and what is said, plus what tools and media need.

    ``metadata`` keys that dialects read: ``tool_calls`` (in OpenAI's shape), ``tool_call_id``, ``signature``.
    Attachments and metadata are copied and frozen deeply.
    """

    role: str
    """Who says it: ``system``, ``user``, ``assistant``, ``tool`` or ``function``."""
    content: str
    """The text."""
    name: str | None = None
    """The speaker's name."""
    swipes: Sequence[str] | None = None
    """Alternatives of the text, as SillyTavern stores them."""
    swipe_id: int | None = None
    """Which of the swipes is shown, from 0."""
    send_date: SendDate | None = None
    """When it was sent."""
    attachments: Sequence[FrozenJson] | None = None
    """Pictures and files, as returned by ``Attachment.to_dict()``."""
    metadata: FrozenObject | None = None

    __repr__ = short_repr

    def __post_init__(self) -> None:
        rest = (self.name, self.swipes, self.swipe_id, self.send_date, self.attachments, self.metadata)
        if type(self.role) is str and type(self.content) is str and rest == _NOTHING:
            return  # most messages have nothing else, and they are made by the thousand
        if self.swipes is not None:
            object.__setattr__(self, "swipes", tuple(self.swipes))
        if self.attachments is not None:
            object.__setattr__(self, "attachments", freeze(self.attachments))
        if self.metadata is not None:
            object.__setattr__(self, "metadata", freeze_object(self.metadata))

    def replace(self, **changes: object) -> Message:
        """Return a changed copy."""
        return dataclasses.replace(self, **changes)  # pyright: ignore[reportArgumentType]  # dataclass field types

    def to_dict(self) -> dict[str, str]:
        """Return role and content, and the name if it is not empty."""
        plain = {"role": self.role, "content": self.content}
        if self.name:
            plain["name"] = self.name
        return plain

    def to_serializable_dict(self) -> JsonObject:
        """Everything that is set, ready for ``json``; dates in ISO 8601."""
        plain: JsonObject = {}
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if value is not None:
                plain[field.name] = value.isoformat() if isinstance(value, date) else thaw(value)
        return plain
