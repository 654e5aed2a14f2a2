"""One message of a SillyTavern chat."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import cast

from tavernkit._dataclass import dataclass
from tavernkit._text.js_values import to_string
from tavernkit._values import (
    EMPTY_OBJECT,
    FrozenJson,
    FrozenObject,
    JsonObject,
    is_mapping,
    is_sequence,
    thaw,
    thaw_object,
)
from tavernkit.prompt._block import Message

NARRATOR = "narrator"
"""``extra.type`` of a line that is sent with the system role."""


@dataclass(frozen=True, slots=True, eq=False)
class ChatMessage:
    """A line of a chat file. ``is_system`` hides it from prompts; ``extra`` and ``source`` keep the file's own keys."""

    name: str = ""
    """Who said it."""
    mes: str = ""
    """The text."""
    is_user: bool = False
    """True if the user said it."""
    is_system: bool = False
    force_avatar: FrozenJson = None
    """The picture that is shown instead of the speaker's own."""
    original_avatar: str | None = None
    """The file name of the group member's card."""
    send_date: str | int | float | None = None
    """When it was sent, in the file's format."""
    swipes: Sequence[str] | None = None
    """Alternatives of the text."""
    swipe_id: int | None = None
    """Which of the swipes is shown, from 0."""
    extra: FrozenObject = field(default_factory=lambda: EMPTY_OBJECT)
    source: FrozenObject = field(default_factory=lambda: EMPTY_OBJECT)

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> ChatMessage:
        """Read a message object. Values of the wrong type count as missing, as in SillyTavern."""
        stored = cast("FrozenObject", data)  # JSON by contract
        get = stored.get
        extra, swipes, swipe_id = get("extra"), get("swipes"), get("swipe_id")
        name, mes, send_date, avatar = get("name"), get("mes"), get("send_date"), get("original_avatar")
        return cls(
            name=name if isinstance(name, str) else "",
            mes=mes if isinstance(mes, str) else "",
            is_user=bool(get("is_user")),
            is_system=bool(get("is_system")),
            force_avatar=get("force_avatar"),
            original_avatar=avatar if isinstance(avatar, str) else None,
            send_date=send_date if isinstance(send_date, (str, int, float)) else None,
            swipes=tuple(map(_swipe, swipes)) if is_sequence(swipes) else None,
            swipe_id=swipe_id if isinstance(swipe_id, int) else None,
            extra=cast("FrozenObject", extra) if is_mapping(extra) else EMPTY_OBJECT,
            source=stored,
        )

    @classmethod
    def from_message(cls, message: Message, *, user_name: str, character_name: str) -> ChatMessage:
        """Make a chat line from a neutral message; a system message becomes a narrator's line.

        Its metadata may contain a line's own keys (``extra``, ``is_system``, ``force_avatar``, ``original_avatar``).

        Args:
            message: The message.
            user_name: The default name for lines of the user.
            character_name: The default name for other lines.
        """
        return line_of(message, user_name, character_name)

    def to_json(self) -> JsonObject:
        """Return the message in the format of a chat file, with all unknown keys."""
        plain = thaw_object(self.source)
        then = ChatMessage.from_json(self.source)
        for key in _KEYS:
            value: object = getattr(self, key)
            if value != getattr(then, key) or (key in _ALWAYS and not self.source):
                plain[key] = thaw(value)
        return plain

    def replace(self, **changes: object) -> ChatMessage:
        """Return a changed copy."""
        return dataclasses.replace(self, **changes)  # pyright: ignore[reportArgumentType]  # dataclass field types

    @property
    def narrator(self) -> bool:
        """True if it is a narrator's line."""
        return self.extra.get("type") == NARRATOR

    @property
    def tool_invocations(self) -> Sequence[Mapping[str, object]] | None:
        """The tool calls it records; None if it is not a tool message."""
        found = self.extra.get("tool_invocations")
        return [each for each in found if is_mapping(each)] if is_sequence(found) else None

    def to_message(self) -> Message:
        """Return the message as a neutral ``Message``."""
        role = "system" if self.narrator else "user" if self.is_user else "assistant"
        return Message(role=role, content=self.mes, name=self.name or None, send_date=self.send_date)


def line_of(message: Message, user_name: str, character_name: str) -> ChatMessage:
    """Make a chat line from a neutral message, like ``ChatMessage.from_message()``, but without checks."""
    metadata = message.metadata or EMPTY_OBJECT
    stored = metadata.get("extra")
    extra: dict[str, FrozenJson] = dict(stored) if isinstance(stored, Mapping) else {}
    if message.role == "system":
        extra["type"] = NARRATOR
    original_avatar, send_date = metadata.get("original_avatar"), message.send_date
    default_name = user_name if message.role == "user" else character_name
    return ChatMessage(
        name=message.name if message.name is not None else default_name,
        mes=message.content,
        is_user=message.role == "user",
        is_system=bool(metadata.get("is_system")),
        force_avatar=metadata.get("force_avatar"),
        original_avatar=original_avatar if isinstance(original_avatar, str) else None,
        send_date=send_date if isinstance(send_date, (str, int, float)) or send_date is None else str(send_date),
        swipes=message.swipes,
        swipe_id=message.swipe_id,
        extra=extra or EMPTY_OBJECT,
        source=EMPTY_OBJECT,
    )


def _swipe(value: object) -> str:
    return value if isinstance(value, str) else to_string(value)


_ALWAYS = ("name", "is_user", "is_system", "mes")
_KEYS = tuple(each.name for each in dataclasses.fields(ChatMessage) if each.name != "source")
