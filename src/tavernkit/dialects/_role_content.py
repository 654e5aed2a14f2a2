"""The shape that OpenAI-compatible providers share when nothing but role and content is kept."""

from __future__ import annotations

from collections.abc import Sequence

from tavernkit._values import JsonObject
from tavernkit.dialects._messages import warn_about_loss
from tavernkit.errors import Warn
from tavernkit.prompt._message import Message


def role_and_content(messages: Sequence[Message], dialect: str, warn: Warn) -> list[JsonObject]:
    """Return a list of ``{"role", "content"}``, and say what else the messages had."""
    warn_about_loss(messages, dialect, warn, tools=True, attachments=True)
    return [{"role": message.role, "content": message.content} for message in messages]
