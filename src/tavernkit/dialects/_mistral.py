"""Mistral's chat API."""

from __future__ import annotations

from collections.abc import Sequence

from tavernkit._values import JsonObject
from tavernkit.dialects._role_content import role_and_content
from tavernkit.errors import Warn, log_warning
from tavernkit.prompt._message import Message


def convert(messages: Sequence[Message], *, warn: Warn = log_warning, **_: object) -> list[JsonObject]:
    """Return a list of ``{"role", "content"}``; for tools use the ``openai`` dialect, which this API takes too."""
    return role_and_content(messages, "mistral", warn)
