"""Tool calls as lines of a chat: one line holds the calls of a reply and, once they are there, their results."""

from __future__ import annotations

from collections.abc import Mapping, MutableSequence, Sequence

from tavernkit.silly_tavern.chat_message import ChatMessage
from tavernkit.values import FrozenJson, is_mapping, thaw

SYSTEM_NAME = "SillyTavern System"


def tool_call_line(calls: Sequence[object]) -> ChatMessage:
    """Make the line of a reply's tool calls (in OpenAI's shape)."""
    invocations: list[FrozenJson] = [_invocation(call) for call in calls if is_mapping(call)]
    names = ", ".join(str(each["name"]) for each in invocations if isinstance(each, Mapping))
    extra: dict[str, FrozenJson] = {"isSmallSys": True, "tool_invocations": invocations}
    return ChatMessage(name=SYSTEM_NAME, mes=f"Tool calls: {names}", is_system=True, extra=extra)


def answer_call(lines: MutableSequence[ChatMessage], call_id: object, result: str) -> bool:
    """Store a result with the newest call of that id; nothing to store it with gives false."""
    for position in range(len(lines) - 1, -1, -1):
        line = lines[position]
        invocations = line.tool_invocations
        if invocations is None or all(each.get("id") != call_id for each in invocations):
            continue
        answered = [{**each, "result": result} if each.get("id") == call_id else dict(each) for each in invocations]
        lines[position] = line.replace(extra={**line.extra, "tool_invocations": thaw(answered)})
        return True
    return False


def _invocation(call: Mapping[str, object]) -> dict[str, FrozenJson]:
    function = call.get("function")
    name = function.get("name") if is_mapping(function) else None
    arguments = function.get("arguments") if is_mapping(function) else None
    return {
        "id": str(call.get("id", "")),
        "displayName": str(name or ""),
        "name": str(name or ""),
        "parameters": arguments if isinstance(arguments, str) else "{}",
        "result": "",
    }
