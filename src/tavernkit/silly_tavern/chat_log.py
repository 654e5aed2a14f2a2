"""The chat a build works on, as the core's chat history."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from tavernkit.errors import ConfigError
from tavernkit.prompt.message import Message
from tavernkit.silly_tavern.chat_file import ChatFile
from tavernkit.silly_tavern.chat_message import ChatMessage, to_chat_message


class ChatLog:
    """Chat lines as a chat history: iterating gives messages, ``lines`` has all that they hold."""

    __slots__ = ("character_name", "lines", "user_name")

    def __init__(self, lines: Iterable[object] = (), *, user_name: str = "User", character_name: str = "") -> None:
        self.user_name = user_name
        self.character_name = character_name
        self.lines: list[ChatMessage] = [self._line(each) for each in lines]

    def _line(self, value: object) -> ChatMessage:
        if type(value) is ChatMessage:
            return value
        return to_chat_message(value, user_name=self.user_name, character_name=self.character_name)

    def append(self, message: object) -> None:
        """Add a message at the end: a line, a message, or a mapping of either."""
        self.lines.append(self._line(message))

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
