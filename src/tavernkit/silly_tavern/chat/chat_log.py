"""The chat a build works on, as the core's chat history."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from tavernkit.errors import ConfigError
from tavernkit.prompt.message import Message
from tavernkit.silly_tavern.chat.chat_message import ChatMessage, line_of
from tavernkit.silly_tavern.chat.tool_lines import ToolCalls, tool_call_line
from tavernkit.silly_tavern.files.chat_file import ChatFile
from tavernkit.stores.history import to_message
from tavernkit.values import EMPTY_OBJECT, is_mapping, is_sequence


class ChatLog:
    """Chat lines as a chat history: iterating gives messages, ``lines`` has all that they hold."""

    __slots__ = ("_calls", "character_name", "lines", "user_name")

    def __init__(self, lines: Iterable[object] = (), *, user_name: str = "User", character_name: str = "") -> None:
        self.user_name = user_name
        self.character_name = character_name
        self.lines: list[ChatMessage] = []
        self._calls = ToolCalls(self.lines)
        for each in lines:
            self.append(each)

    def append(self, message: object) -> None:
        """Add a message at the end: a line, a message, or a mapping of either.

        A neutral message that calls tools becomes a line of its own, and each result goes to the call it answers.
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
    """Make a log of nothing, a chat file, a log, a chat history or any iterable of lines or messages."""
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
