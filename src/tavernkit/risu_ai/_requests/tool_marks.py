"""Marks of tool calls in stored texts. What they name is kept outside of the chat, by its id."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from tavernkit._dataclass import dataclass
from tavernkit._text.js_values import trim
from tavernkit._values import JsonObject, is_mapping, is_object, thaw_object
from tavernkit.risu_ai._cbs.delimited import replace_delimited

ToolCalls = Mapping[str, Mapping[str, object]]
"""Calls by the id in their mark: ``call`` is the model's, in OpenAI's shape, ``result`` is the tool's."""

TOOL_CALL = "<tool_call>"
_CLOSER = "</tool_call>"
_MARK = re.compile(r"<tool_call>(.*?)</tool_call>", re.DOTALL)


def without_tool_calls(text: str) -> str:
    """Cut the marks out of a text."""
    return replace_delimited(_MARK, _CLOSER, "", text)


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """A call that a mark names, and the tool's result."""

    id: str
    name: str
    arguments: JsonObject
    result: str


def around_tool_calls(text: str, calls: ToolCalls) -> list[str | ToolOutcome]:
    """Return the trimmed texts around the marks, and the calls that are known, in order.

    Empty texts and unknown calls are left out; a text without a mark stays as it is.

    Args:
        text: The text.
        calls: The calls that marks may name.
    """
    if TOOL_CALL not in text or _CLOSER not in text:
        return [text]
    pieces = replace_delimited(_MARK, _CLOSER, "\0", text.replace("\0", "")).split("\0")
    outcomes = [_outcome(name, calls) for name in _MARK.findall(text)]
    found: list[str | ToolOutcome] = []
    for number, piece in enumerate(pieces):
        trimmed = trim(piece)
        if trimmed:
            found.append(trimmed)
        outcome = outcomes[number] if number < len(outcomes) else None
        if outcome is not None:
            found.append(outcome)
    return found


def tool_outcomes(text: str, calls: ToolCalls) -> list[ToolOutcome]:
    """Return the calls that a text names and that are known."""
    return [each for each in around_tool_calls(text, calls) if isinstance(each, ToolOutcome)]


def _outcome(name: str, calls: ToolCalls) -> ToolOutcome | None:
    stored = calls.get(name)
    call = stored.get("call") if stored is not None else None
    function = call.get("function") if is_mapping(call) else None
    if stored is None or not is_mapping(call) or not is_mapping(function):
        return None
    try:
        arguments: object = json.loads(str(function.get("arguments") or "{}"))
    except (ValueError, RecursionError):
        arguments = {}
    return ToolOutcome(
        id=str(call.get("id")),
        name=str(function.get("name") or ""),
        arguments=arguments if is_object(arguments) else {},
        result=str(stored.get("result") or ""),
    )


def tool_mark(call_id: str) -> str:
    """The mark that stands for a call in a text."""
    return f"{TOOL_CALL}{call_id}{_CLOSER}"


def tool_messages(text: str, calls: ToolCalls) -> list[JsonObject]:
    """The calls that a text names and their results, as messages in OpenAI's shape; unknown ones are left out."""
    found: list[JsonObject] = []
    for name in _MARK.findall(text) if TOOL_CALL in text else ():
        stored = calls.get(name)
        call = stored.get("call") if stored is not None else None
        if stored is None or not is_mapping(call):
            continue
        found.append({"role": "assistant", "content": "", "tool_calls": [thaw_object(call)]})
        found.append({"role": "tool", "content": str(stored.get("result") or ""), "tool_call_id": str(call.get("id"))})
    return found
