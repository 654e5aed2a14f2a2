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
        text = "@@system\n" + text
    markers = list(_MARKER.finditer(text))
    ends = [*(marker.start() for marker in markers[1:]), len(text)]
    return [
        PromptMessage(role=marker[1], content=trim(text[marker.end() : end]), source=source)
        for marker, end in zip(markers, ends, strict=False)
    ]
