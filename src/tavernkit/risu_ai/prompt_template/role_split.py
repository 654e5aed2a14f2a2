"""Prompts that hold several messages, parted by ``@@user``, ``@@assistant`` and ``@@system``."""

from __future__ import annotations

import re

from tavernkit.risu_ai.chat.prompt_message import PromptMessage
from tavernkit.text.js_values import trim
from tavernkit.values import FrozenObject

_MARKER = re.compile(r"@@@?(user|assistant|system)\n")


def role_split(text: str, source: FrozenObject) -> list[PromptMessage]:
    """Split a text at its markers; one that starts with ``@@`` loses all before its first marker, as in RisuAI."""
    if not text.startswith("@@"):
        text = f"@@system\n{text}"
    pieces = _MARKER.split(text)
    return [
        PromptMessage(role=role, content=trim(content), source=source)
        for role, content in zip(pieces[1::2], pieces[2::2], strict=True)
    ]
