"""The shape that OpenAI-compatible providers share when nothing but role and content is kept: AI21, Mistral, xAI."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tavernkit._values import JsonObject
from tavernkit.dialects._messages import warn_about_loss
from tavernkit.errors import Warn, log_warning
from tavernkit.prompt._message import Message


def role_and_content(dialect: str) -> Callable[..., list[JsonObject]]:
    """Make a dialect that returns a list of ``{"role", "content"}`` and warns about other data.

    For tools, use the ``openai`` dialect, which these providers also accept.
    """

    def convert(messages: Sequence[Message], *, warn: Warn = log_warning, **_: object) -> list[JsonObject]:
        warn_about_loss(messages, dialect, warn, tools=True, attachments=True)
        return [{"role": message.role, "content": message.content} for message in messages]

    return convert
