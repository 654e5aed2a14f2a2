"""Tool calls that are streamed: their pieces read, and put together again."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tavernkit.arguments import require
from tavernkit.text import strict_json
from tavernkit.values import Json, JsonObject, is_list, is_object
from tavernkit.vibe_tavern.transports.base import ToolCallDelta

EMPTY_ARGUMENTS = "{}"
_OWN_KEYS = frozenset(("index", "id", "type", "function"))


def read_deltas(calls: Json) -> tuple[ToolCallDelta, ...]:
    """Read ``delta.tool_calls`` of an event, or ``tool_calls`` of a whole message."""
    return tuple(_delta(at, call) for at, call in enumerate(calls if is_list(calls) else ()) if is_object(call))


@dataclass(slots=True)
class _Call:
    id: str | None
    name: str
    arguments: list[str]
    extra: JsonObject


class ToolCalls:
    """Collects the pieces of one answer.

    >>> calls = ToolCalls()
    >>> for arguments in ('{"sides"', ': 6}'):
    ...     _ = calls.add(ToolCallDelta(0, id="c1", name="roll", arguments=arguments))
    >>> calls.assembled()[0]["function"]
    {'name': 'roll', 'arguments': '{"sides": 6}'}
    """

    def __init__(self) -> None:
        self._calls: list[_Call] = []
        self._places: dict[int, int] = {}

    def __bool__(self) -> bool:
        return bool(self._calls)

    def add(self, delta: ToolCallDelta) -> ToolCallDelta:
        """Take a piece; gives it with the place of its call in the answer.

        Some servers give all calls the same index: a piece with another id begins another call.
        """
        if type(delta) is not ToolCallDelta:
            require("delta", delta, ToolCallDelta)
        place = self._places.get(delta.index)
        if place is None or (delta.id and self._calls[place].id not in (None, delta.id)):
            place = self._places[delta.index] = len(self._calls)
            self._calls.append(_Call(None, "", [], {}))
        call = self._calls[place]
        call.id = call.id or delta.id
        call.name = call.name or delta.name or ""
        call.arguments.append(delta.arguments)
        call.extra |= delta.extra or {}
        return delta if delta.index == place else replace(delta, index=place)

    def assembled(self) -> list[JsonObject]:
        """All calls, as a whole message has them."""
        return [_whole(at, call) for at, call in enumerate(self._calls)]


def _whole(at: int, call: _Call) -> JsonObject:
    function: JsonObject = {"name": call.name, "arguments": "".join(call.arguments) or EMPTY_ARGUMENTS}
    return {"id": call.id or f"call_{at + 1}", "type": "function", "function": function, **call.extra}


def _delta(at: int, call: JsonObject) -> ToolCallDelta:
    function = call.get("function")
    function = function if is_object(function) else {}
    index, name, arguments = call.get("index"), function.get("name"), function.get("arguments")
    given = call.get("id")
    extra = {key: value for key, value in call.items() if key not in _OWN_KEYS}
    return ToolCallDelta(
        index=int(index) if isinstance(index, int) else at,
        id=given if isinstance(given, str) and given else None,
        name=name if isinstance(name, str) and name else None,
        arguments=arguments if isinstance(arguments, str) else strict_json.compact(arguments) if arguments else "",
        extra=extra or None,
    )
