"""Marks of tool calls in stored texts. What they name is kept outside of the chat, by its id."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tavernkit.risu_ai.cbs.delimited import replace_delimited
from tavernkit.text.js_values import trim
from tavernkit.values import JsonObject, is_mapping, thaw_object

ToolCalls = Mapping[str, Mapping[str, object]]
"""Calls by the id in their mark: ``call`` is the model's, in OpenAI's shape, ``result`` what the tool gave."""

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


def tool_mark(call_id: str) -> str:
    """The mark that stands for a call in a text."""
    return f"{TOOL_CALL}{call_id}{_CLOSER}"


def tool_messages(text: str, calls: ToolCalls) -> list[JsonObject]:
    """The calls that a text names and what they gave, as messages in OpenAI's shape; unknown ones are left out."""
    found: list[JsonObject] = []
    for name in _MARK.findall(text) if TOOL_CALL in text else ():
        stored = calls.get(name)
        call = stored.get("call") if stored is not None else None
        if stored is None or not is_mapping(call):
            continue
        found.append({"role": "assistant", "content": "", "tool_calls": [thaw_object(call)]})
        found.append({"role": "tool", "content": str(stored.get("result") or ""), "tool_call_id": str(call.get("id"))})
    return found
