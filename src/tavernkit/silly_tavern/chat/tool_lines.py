"""Tool calls as lines of a chat: one line holds the calls of a reply and, once they are there, their results."""

from __future__ import annotations

from collections.abc import Mapping, MutableSequence, Sequence

from tavernkit.silly_tavern.chat.chat_message import ChatMessage
from tavernkit.values import EMPTY_OBJECT, FrozenJson, FrozenObject, is_mapping, thaw_object

SYSTEM_NAME = "SillyTavern System"


def tool_call_line(calls: Sequence[object]) -> ChatMessage:
    """Make the line of a reply's tool calls (in OpenAI's shape)."""
    invocations: list[FrozenJson] = [_invocation(call) for call in calls if is_mapping(call)]
    names = ", ".join(str(each["name"]) for each in invocations if isinstance(each, Mapping))
    extra: dict[str, FrozenJson] = {"isSmallSys": True, "tool_invocations": invocations}
    return ChatMessage(name=SYSTEM_NAME, mes=f"Tool calls: {names}", is_system=True, extra=extra)


class ToolCalls:
    """Where the tool calls of a chat are, so that results find theirs without going through the chat each time."""

    def __init__(self, lines: MutableSequence[ChatMessage]) -> None:
        self._lines = lines
        self._seen = 0
        self._places: dict[str, tuple[int, list[int]]] = {}

    def answer(self, call_id: object, result: str) -> bool:
        """Store a result with the newest call of that id; nothing to store it with gives false."""
        self._look()
        place = self._places.get(call_id) if isinstance(call_id, str) else None
        if place is None:
            return False
        position, offsets = place
        line = self._lines[position]
        # The other calls of the line are not copied: a reply may have very many, and each is answered.
        answered = list(_invocations(line))
        for offset in offsets:
            answered[offset] = {**thaw_object(_object(answered[offset])), "result": result}
        self._lines[position] = line.replace(extra={**line.extra, "tool_invocations": answered})
        return True

    def _look(self) -> None:
        if self._seen > len(self._lines):
            self._seen, self._places = 0, {}
        for position in range(self._seen, len(self._lines)):
            own: dict[str, list[int]] = {}
            for offset, invocation in enumerate(_invocations(self._lines[position])):
                call_id = _object(invocation).get("id")
                if isinstance(call_id, str):
                    own.setdefault(call_id, []).append(offset)
            self._places.update((call_id, (position, offsets)) for call_id, offsets in own.items())
        self._seen = len(self._lines)


def _invocations(line: ChatMessage) -> Sequence[FrozenJson]:
    found = line.extra.get("tool_invocations")
    return found if isinstance(found, (list, tuple)) else ()


def _object(value: FrozenJson) -> FrozenObject:
    return value if isinstance(value, Mapping) else EMPTY_OBJECT


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
