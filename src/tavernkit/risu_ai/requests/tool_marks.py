"""Marks of tool calls in stored texts. What they name is kept outside of the chat, so here they only are cut out."""

from __future__ import annotations

import re

from tavernkit.risu_ai.cbs.delimited import replace_delimited
from tavernkit.text.js_values import trim

TOOL_CALL = "<tool_call>"
_CLOSER = "</tool_call>"
_MARK = re.compile(r"<tool_call>(.*?)</tool_call>", re.DOTALL)


def without_tool_calls(text: str) -> str:
    """Cut the marks out of a text."""
    return replace_delimited(_MARK, _CLOSER, "", text)


def around_tool_calls(text: str) -> list[str]:
    """The trimmed texts around the marks, empty ones left out; a text without a mark stays as it is."""
    if TOOL_CALL not in text or _CLOSER not in text:
        return [text]
    pieces = replace_delimited(_MARK, _CLOSER, "\0", text.replace("\0", "")).split("\0")
    return [piece for piece in map(trim, pieces) if piece]
