"""Dialects that keep nothing but texts: one text for models without chat, and role and content."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tavernkit._text.traced import join
from tavernkit._values import Json, JsonObject, is_sequence
from tavernkit.dialects._messages import warn_about_loss
from tavernkit.errors import Warn, log_warning
from tavernkit.prompt._message import Message


def convert(
    messages: Sequence[Message], *, stop_sequences: object = None, warn: Warn = log_warning, **_: object
) -> JsonObject:
    """Return ``{"prompt", "stop_sequences"}``: non-empty contents, one per line."""
    warn_about_loss(messages, "text", warn, tools=True, attachments=True)
    stops = stop_sequences if is_sequence(stop_sequences) else (stop_sequences,)
    listed: list[Json] = [_text(stop) for stop in stops if stop is not None]
    return {
        "prompt": join("\n", [message.content for message in messages if message.content]),
        "stop_sequences": listed,
    }


def _text(stop: object) -> str:
    return str(stop).lower() if isinstance(stop, bool) else str(stop)


def role_and_content(dialect: str) -> Callable[..., list[JsonObject]]:
    """Make a dialect that returns a list of ``{"role", "content"}`` and warns about other data: AI21, Mistral, xAI.

    For tools, use the ``openai`` dialect, which these providers also accept.
    """

    def convert(messages: Sequence[Message], *, warn: Warn = log_warning, **_: object) -> list[JsonObject]:
        warn_about_loss(messages, dialect, warn, tools=True, attachments=True)
        return [{"role": message.role, "content": message.content} for message in messages]

    return convert
