"""The chat of a build as a chat history, and its lines for tool calls."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableSequence, Sequence
from typing import cast

from tavernkit._values import EMPTY_OBJECT, FrozenJson, FrozenObject, is_mapping, is_sequence, thaw_object
from tavernkit.errors import ConfigError
from tavernkit.prompt._block import Message
from tavernkit.silly_tavern._chat.chat_message import ChatMessage, line_of
from tavernkit.silly_tavern._files.chat_file import ChatFile
from tavernkit.stores._history import to_message

SYSTEM_NAME = "SillyTavern System"
CUSTOM = "custom"
"""The type of OpenAI's tools that take a text instead of arguments."""


def tool_call_line(calls: Sequence[object]) -> ChatMessage:
    """Make the line of a reply's tool calls (in OpenAI's shape)."""
    invocations: list[FrozenJson] = [_invocation(call) for call in calls if is_mapping(call)]
    names = ", ".join(str(each["name"]) for each in invocations if isinstance(each, Mapping))
    extra: dict[str, FrozenJson] = {"isSmallSys": True, "tool_invocations": invocations}
    return ChatMessage(name=SYSTEM_NAME, mes=f"Tool calls: {names}", is_system=True, extra=extra)


class ToolCalls:
    """An index of a chat's tool calls, so that results are matched without searching the chat each time."""

    def __init__(self, lines: MutableSequence[ChatMessage]) -> None:
        self._lines = lines
        self._seen = 0
        self._places: dict[str, tuple[int, list[int]]] = {}

    def answer(self, call_id: object, result: str) -> bool:
        """Store a result with the newest call of that id; return False if there is none."""
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
    function, custom = call.get("function"), call.get("custom")
    called: Mapping[str, object] = function if is_mapping(function) else custom if is_mapping(custom) else {}
    arguments = called.get("input" if called is custom else "arguments")
    name = str(called.get("name") or "")
    found: dict[str, FrozenJson] = {
        "id": str(call.get("id", "")),
        "displayName": name,
        "name": name,
        "parameters": arguments if isinstance(arguments, str) else "{}",
        "result": "",
    }
    # SillyTavern knows functions only; this is ours.
    return {**found, "type": CUSTOM} if called is custom else found


class ChatLog:
    """Chat lines as a chat history: iterating gives messages, ``lines`` has the full lines."""

    __slots__ = ("_calls", "character_name", "lines", "user_name")

    def __init__(self, lines: Iterable[object] = (), *, user_name: str = "User", character_name: str = "") -> None:
        self.user_name = user_name
        self.character_name = character_name
        self.lines: list[ChatMessage] = []
        self._calls = ToolCalls(self.lines)
        given = list(lines)
        if set(map(type, given)) == {ChatMessage}:
            self.lines += cast("list[ChatMessage]", given)
        else:
            for each in given:
                self.append(each)

    @classmethod
    def of(cls, *parts: Sequence[ChatMessage]) -> ChatLog:
        """Make a log of lines that are known to be lines: checking thousands takes longer than copying them."""
        log = cls()
        for part in parts:
            log.lines += part
        return log

    def append(self, message: object) -> None:
        """Add a message at the end: a line, a message, or a mapping of either.

        A neutral message with tool calls becomes a separate line, and each result is stored with its call.
        """
        if type(message) is ChatMessage:
            self.lines.append(message)
        elif is_mapping(message) and "mes" in message:
            self.lines.append(ChatMessage.from_json(message))
        else:
            self._append_neutral(_neutral(message))

    def _append_neutral(self, message: Message) -> None:
        metadata = message.metadata or EMPTY_OBJECT
        if message.role == "tool" and self._calls.answer(metadata.get("tool_call_id"), message.content):
            return
        calls = metadata.get("tool_calls")
        if message.content or not calls:
            self.lines.append(line_of(message, self.user_name, self.character_name))
        if is_sequence(calls):
            self.lines.append(tool_call_line(calls))

    def __iter__(self) -> Iterator[Message]:
        return (line.to_message() for line in tuple(self.lines))

    def __len__(self) -> int:
        return len(self.lines)

    def clear(self) -> None:
        """Remove all messages."""
        self.lines.clear()

    def last(self, count: int) -> list[Message]:
        """Return the newest ``count`` messages, oldest first."""
        return [line.to_message() for line in self.lines[-count:]] if count > 0 else []


def _neutral(value: object) -> Message:
    if isinstance(value, Message):
        return value
    if is_mapping(value) and "role" in value and "content" in value:
        return to_message(value)
    raise ConfigError(
        "a message must be a ChatMessage, a Message, an object with 'mes' (a line of a chat file) or one with "
        f"'role' and 'content', not {type(value).__name__}"
    )


def chat_log(source: object, *, user_name: str, character_name: str) -> ChatLog:
    """Make a log from None, a chat file, a log, a chat history or any iterable of lines or messages."""
    if isinstance(source, ChatLog):
        return source
    if source is None:
        lines: Iterable[object] = ()
    elif isinstance(source, ChatFile):
        lines = source.messages
    elif isinstance(source, (str, bytes, Mapping)) or not isinstance(source, Iterable):
        raise ConfigError("history must be a ChatFile or a list of messages, not text, a mapping or a single object")
    else:
        lines = source
    return ChatLog(lines, user_name=user_name, character_name=character_name)
