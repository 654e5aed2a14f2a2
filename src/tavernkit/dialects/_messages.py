"""Reading what dialects need from a message."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from tavernkit._text.traced import join
from tavernkit._values import FrozenJson, is_mapping, is_sequence
from tavernkit.errors import ConfigError, Warn
from tavernkit.prompt._message import Message

MessageLike: TypeAlias = Message | Mapping[str, object]
"""A message, or one in OpenAI's shape (``{"role": …, "content": …}``)."""

_METADATA_KEYS = frozenset({"role", "content", "name", "attachments", "metadata"})


def as_messages(messages: Iterable[MessageLike]) -> list[Message]:
    """Convert messages to ``Message`` values."""
    return [message if isinstance(message, Message) else message_from_openai(message) for message in messages]


def message_from_openai(message: Mapping[str, object]) -> Message:
    """Read a message in OpenAI's shape: text parts become the content, other parts attachments, the rest metadata.

    Raises:
        ConfigError: It is not a mapping with a role.
    """
    if not is_mapping(message) or not isinstance(message.get("role"), str):
        raise ConfigError(f"a message must be a Message or a mapping with a role, not {message!r:.80}")
    text, parts = _content(message.get("content"))
    attachments = [*parts, *_list(message.get("attachments"))]
    metadata = {key: value for key, value in message.items() if key not in _METADATA_KEYS}
    if is_mapping(inner := message.get("metadata")):
        metadata.update(inner)
    name = message.get("name")
    return Message(
        role=str(message["role"]),
        content=text,
        name=None if name is None else str(name),
        attachments=attachments or None,  # pyright: ignore[reportArgumentType]  # frozen by Message
        metadata=metadata or None,  # pyright: ignore[reportArgumentType]  # frozen by Message
    )


def metadata_value(message: Message, key: str) -> FrozenJson:
    """Return a metadata value; None and False count as absent, an empty text or list does not."""
    value = message.metadata.get(key) if message.metadata else None
    return None if value is False else value


def warn_about_loss(messages: Sequence[Message], dialect: str, warn: Warn, *, tools: bool, attachments: bool) -> None:
    """Warn about what a dialect leaves out of these messages: tool data, attachments or both."""
    lost_tools = lost_attachments = 0
    for message in messages:
        if tools and (metadata_value(message, "tool_calls") or metadata_value(message, "tool_call_id")):
            lost_tools += 1
        if attachments and message.attachments:
            lost_attachments += 1
    if lost_tools:
        warn(f"the {dialect} dialect leaves out tool calls and tool results' ids ({lost_tools} messages have them)")
    if lost_attachments:
        warn(f"the {dialect} dialect leaves out attachments here ({lost_attachments} messages have them)")


def _content(content: object) -> tuple[str, list[object]]:
    if content is None:
        return "", []
    if not is_sequence(content):
        return str(content), []
    texts: list[str] = []
    parts: list[object] = []
    for part in content:
        if is_mapping(part) and part.get("type") in ("text", "input_text") and isinstance(part.get("text"), str):
            texts.append(str(part["text"]))
        elif isinstance(part, str):
            texts.append(part)
        else:
            parts.append(part)
    return join("\n", texts), parts


def _list(value: object) -> Sequence[object]:
    return value if is_sequence(value) else []
