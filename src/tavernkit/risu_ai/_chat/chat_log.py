"""The chat a build works on, as the core's chat history."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from tavernkit._dataclass import copy_with
from tavernkit._text.js_values.numbers import as_float
from tavernkit._values import EMPTY_OBJECT, is_mapping
from tavernkit.errors import ConfigError
from tavernkit.prompt._block import Message
from tavernkit.risu_ai._files.chat_file import ChatFile
from tavernkit.risu_ai._objects import RisuCharacter, RisuChat, RisuMessage, made_id
from tavernkit.stores._history import to_message

ROLES: Mapping[str, str] = {"user": "user", "char": "assistant"}
"""RisuAI's roles of stored messages, and their roles in a prompt."""

_STORED_ROLES = {"assistant": "char", "char": "char", "bot": "char", "model": "char"}


class RisuChatLog:
    """A chat as a chat history: iterating gives messages, ``chat`` has all of RisuAI's data."""

    __slots__ = ("chat",)

    def __init__(self, chat: RisuChat) -> None:
        self.chat = chat

    def append(self, message: object) -> None:
        """Add a message at the end: RisuAI's own, a core message, or a mapping of either."""
        self.chat = with_messages(self.chat, (*self.chat.messages, stored_message(message)))

    def __iter__(self) -> Iterator[Message]:
        return (_core(message) for message in self.chat.messages)

    def __len__(self) -> int:
        return len(self.chat.messages)

    def clear(self) -> None:
        """Remove all messages."""
        self.chat = with_messages(self.chat, ())

    def last(self, count: int) -> list[Message]:
        """Return the newest ``count`` messages, oldest first."""
        return [_core(message) for message in self.chat.messages[-count:]] if count > 0 else []


def chat_log(source: object) -> RisuChatLog:
    """Make a log from None, a chat, a chat file with one chat, RisuAI's JSON of a chat, or any messages."""
    if isinstance(source, RisuChatLog):
        return source
    if isinstance(source, RisuChat):
        return RisuChatLog(source)
    if isinstance(source, ChatFile):
        if len(source.chats) != 1:
            raise ConfigError(f"the chat file has {len(source.chats)} chats: pass one of them as history")
        return RisuChatLog(RisuCharacter().opened(source.chats[0]))
    if is_mapping(source):
        if "message" not in source:
            raise ConfigError("history must be a RisuChat, RisuAI's JSON of a chat, or a list of messages")
        return RisuChatLog(RisuChat.from_json(source))
    if source is None:
        return RisuChatLog(RisuChat())
    if isinstance(source, (str, bytes)) or not isinstance(source, Iterable):
        problem = f"history must be a chat or a list of messages, not {type(source).__name__}"
        raise ConfigError(f"{problem}: read a file with ChatFile.load" if isinstance(source, str) else problem)
    return RisuChatLog(with_messages(RisuChat(), (stored_message(each) for each in source)))


def stored_message(value: object) -> RisuMessage:
    """Make a stored message from RisuAI's own, a core message, or a mapping of either."""
    if isinstance(value, RisuMessage):
        return value
    if is_mapping(value) and "data" in value:
        return RisuMessage.from_json(value)
    message = to_message(value)  # pyright: ignore[reportArgumentType]  # it refuses what is not a message
    role = _STORED_ROLES.get(message.role, "user")
    return RisuMessage(role=role, data=message.content, time=None, saying=None, raw=EMPTY_OBJECT)


def with_messages(chat: RisuChat, messages: Iterable[RisuMessage]) -> RisuChat:
    """A chat with other messages."""
    return dataclasses.replace(chat, messages=tuple(messages))


def with_greeting(chat: RisuChat, greeting: int | None) -> RisuChat:
    """Return a chat with another greeting.

    Args:
        chat: The chat.
        greeting: 0 is the first message, 1 the first alternate, which RisuAI counts from 0; None changes nothing.
    """
    if greeting is None or chat.greeting_index == greeting - 1:
        return chat
    return dataclasses.replace(chat, greeting_index=greeting - 1)


def greeting_number(chat: RisuChat) -> int | None:
    """Return the greeting of a chat as ``with_greeting()`` counts it; None if it is no number."""
    index = chat.greeting_index
    return None if index is None or not math.isfinite(as_float(index)) else int(index) + 1


def with_text(message: RisuMessage, data: str) -> RisuMessage:
    """A message with another text."""
    return message if data == message.data else dataclasses.replace(message, data=data)


def chat_id(message: RisuMessage) -> str | None:
    """The id of a stored message, if it has one."""
    found = message.raw.get("chatId")
    return (found or None) if isinstance(found, str) else None


def generation_id(message: RisuMessage) -> str:
    """Return the id of a message's generation; empty if it has none."""
    info = message.raw.get("generationInfo")
    found = info.get("generationId") if is_mapping(info) else None
    return found if isinstance(found, str) else ""


def with_ids(chat: RisuChat, without: Sequence[int] | None = None) -> RisuChat:
    """Add ids to all messages. Our ids depend only on index and text, so the next turn makes the same.

    Args:
        chat: The chat.
        without: The indexes of messages without an id, if known.
    """
    if without is None:
        without = [place for place, message in enumerate(chat.messages) if not has_id(message)]
    if not without:
        return chat
    messages = list(chat.messages)
    for place in without:
        messages[place] = _with_id(messages[place], place)
    return with_messages(chat, messages)


def has_id(message: RisuMessage) -> bool:
    """Return True if a message has an id."""
    found = message.raw.get("chatId")
    return type(found) is str and bool(found)


def _with_id(message: RisuMessage, index: int) -> RisuMessage:
    made = made_id("message", index, message.role, message.data)
    return copy_with(message, raw={**message.raw, "chatId": made})


def sent_messages(chat: RisuChat, disabled: Sequence[int] | None = None) -> tuple[tuple[RisuMessage, ...], bool]:
    """Return the messages that are not disabled, and whether one of them disables everything before it.

    Args:
        chat: The chat.
        disabled: The indexes of messages that are disabled in some way, if known.
    """
    if disabled is None:
        disabled = [place for place, message in enumerate(chat.messages) if message.raw.get("disabled")]
    if not disabled:
        return chat.messages, False
    found: list[RisuMessage] = []
    for message in reversed(chat.messages):
        how = message.raw.get("disabled")
        if how == "allBefore":
            return tuple(reversed(found)), True
        if how is not True:
            found.append(message)
    return tuple(reversed(found)), False


def _core(message: RisuMessage) -> Message:
    return Message(role=ROLES.get(message.role, "assistant"), content=message.data)
