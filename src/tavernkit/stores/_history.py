"""Chat history as a source of messages, oldest first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Protocol, TypeAlias, cast, runtime_checkable

from tavernkit._arguments import require
from tavernkit._values import is_mapping, is_sequence
from tavernkit.dialects._messages import read_content
from tavernkit.errors import ConfigError
from tavernkit.prompt._block import Message


@runtime_checkable
class ChatHistory(Protocol):
    """Messages in chronological order; an application may have its own implementation, backed by a database."""

    def append(self, message: MessageLike) -> None:
        """Add a message at the end."""
        ...

    def __iter__(self) -> Iterator[Message]: ...

    def __len__(self) -> int: ...

    def clear(self) -> None:
        """Remove all messages."""
        ...

    def last(self, count: int) -> list[Message]:
        """Return the newest ``count`` messages, oldest first."""
        ...


class HasRoleAndContent(Protocol):
    """Any object with a role and content, such as a database row."""

    @property
    def role(self) -> str:
        """Who speaks."""
        ...

    @property
    def content(self) -> str:
        """What is said."""
        ...


MessageLike: TypeAlias = Message | Mapping[str, object] | HasRoleAndContent
"""A ``Message``, a mapping with role and content (such as OpenAI's messages), or any object with these attributes."""

HistoryLike: TypeAlias = ChatHistory | Iterable[MessageLike] | None
"""What ``wrap_history()`` accepts."""


class InMemoryChatHistory:
    """A ``ChatHistory`` in a list; items are converted to ``Message`` at once."""

    def __init__(self, messages: Iterable[MessageLike] = ()) -> None:
        self._messages = [to_message(message) for message in messages]

    def append(self, message: MessageLike) -> None:
        """Add a message at the end."""
        self._messages.append(to_message(message))

    def __iter__(self) -> Iterator[Message]:
        return iter(tuple(self._messages))

    def __len__(self) -> int:
        return len(self._messages)

    def clear(self) -> None:
        """Remove all messages."""
        self._messages.clear()

    def last(self, count: int) -> list[Message]:
        """Return the newest ``count`` messages, oldest first."""
        return self._messages[-count:] if count > 0 else []


class IterableChatHistory:
    """Reads messages from an iterable each time; writes only if the iterable can be changed."""

    def __init__(self, source: Iterable[MessageLike]) -> None:
        self._source = source

    def append(self, message: MessageLike) -> None:
        """Add a message to the source, if it can be changed."""
        self._method("append", "append to")(to_message(message))

    def __iter__(self) -> Iterator[Message]:
        return (to_message(message) for message in self._source)

    def __len__(self) -> int:
        return sum(1 for _ in self._source)

    def clear(self) -> None:
        """Clear the source, if it can be changed."""
        self._method("clear", "clear")()

    def last(self, count: int) -> list[Message]:
        """Return the newest ``count`` messages, oldest first."""
        return list(self)[-count:] if count > 0 else []

    def _method(self, name: str, action: str) -> Callable[..., object]:
        method: object = getattr(self._source, name, None)
        if callable(method):
            return method
        raise ConfigError(f"cannot {action} a history over {type(self._source).__name__}: pass a list or a ChatHistory")


@lru_cache(maxsize=64)
def _is_history(kind: type) -> bool:
    """Return True if all objects of a class are histories: asking the protocol costs fifty calls each time."""
    return all(callable(getattr(kind, name, None)) for name in ("append", "__iter__", "__len__", "clear", "last"))


def wrap_history(history: HistoryLike) -> ChatHistory:
    """Make a history from None, a history, a list of messages or mappings, or any re-iterable object.

    Raises:
        ConfigError: It is something else.
    """
    if history is None:
        return InMemoryChatHistory()
    if _is_history(type(history)):
        return cast("ChatHistory", history)
    if isinstance(history, ChatHistory):
        return history
    if isinstance(history, (str, bytes, Mapping)) or not hasattr(history, "__iter__"):
        kind = type(history).__name__  # pyright: ignore[reportUnknownArgumentType]  # whatever it is, it is refused
        raise ConfigError(f"history must be a list of messages or a ChatHistory, not {kind}")
    if isinstance(history, (list, tuple, Iterator)):
        return InMemoryChatHistory(history)
    return IterableChatHistory(history)


def to_message(message: MessageLike) -> Message:
    """Make a ``Message`` from a mapping (camelCase accepted) or an object with ``role`` and ``content``.

    Messages in OpenAI's shape keep their tool calls and the parts of their content.

    Raises:
        ConfigError: It is something else.
    """
    if isinstance(message, Message):
        return message
    if is_mapping(message):
        return _from_mapping(message)
    if hasattr(message, "role") and hasattr(message, "content"):
        names = ("role", "content", "name", "swipes", "swipe_id", "send_date", "attachments", "metadata")
        return _from_mapping({name: getattr(message, name, None) for name in names})
    raise ConfigError(f"a message must be a Message or a mapping with role and content, not {type(message).__name__}")


_OPENAI_KEYS = ("tool_calls", "tool_call_id", "signature", "reasoning_details")
"""Keys of OpenAI's messages that a ``Message`` has in its metadata."""


def _from_mapping(value: Mapping[str, object]) -> Message:
    role, content = value.get("role"), value.get("content")
    if len(value) == 2 and type(role) is str and type(content) is str:
        return Message(role.strip().lower(), content)  # as most are
    openai: dict[str, object] = {key: value[key] for key in _OPENAI_KEYS if value.get(key) is not None}
    if role is None or (content is None and "tool_calls" not in openai):
        raise ConfigError(f"a message needs role and content; these keys were given: {', '.join(map(str, value))}")
    text, parts = read_content(content)
    name, metadata, attachments = value.get("name"), value.get("metadata"), value.get("attachments")
    swipes = value.get("swipes")
    if metadata is not None and not is_mapping(metadata):
        require("metadata of a message", metadata, Mapping[str, object])
    for what, given in (("attachments", attachments), ("swipes", swipes)):
        if given is not None and not is_sequence(given):
            require(f"{what} of a message", given, Sequence[object])
    if openai and (metadata is None or is_mapping(metadata)):
        metadata = {**openai, **(metadata or {})}
    if parts and (attachments is None or is_sequence(attachments)):
        attachments = [*parts, *(attachments or ())]
    return Message(
        role=str(role).strip().lower(),
        content=text,
        name=None if name is None else str(name),
        swipes=swipes,  # pyright: ignore[reportArgumentType]  # a list of texts
        swipe_id=_first(value, "swipe_id", "swipeId"),  # pyright: ignore[reportArgumentType]  # a number
        send_date=_first(value, "send_date", "sendDate"),  # pyright: ignore[reportArgumentType]  # a date, number or text
        attachments=attachments,  # pyright: ignore[reportArgumentType]  # frozen by Message
        metadata=metadata,  # pyright: ignore[reportArgumentType]  # frozen by Message
    )


def _first(value: Mapping[str, object], *names: str) -> object:
    return next((value[name] for name in names if value.get(name) is not None), None)
