"""Everything that is sent to a model, as one value."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import field
from types import MappingProxyType
from typing import Final

from tavernkit._dataclass import copy_with, dataclass, short_repr
from tavernkit._values import (
    EMPTY_OBJECT,
    FrozenJson,
    FrozenObject,
    JsonObject,
    freeze,
    freeze_object,
    is_mapping,
    is_sequence,
)
from tavernkit.dialects._messages import MessageLike
from tavernkit.errors import ConfigError, Warn, log_warning
from tavernkit.prompt._block import Message

REQUEST: Final = "a Request (plan.request() makes one)"
"""What to send instead of a plan, messages or text."""
_OWN_FIELDS: Final = ("model", "stop", "tools", "tool_choice", "response_format")
"""Options that have their own field here."""
_SET_ON_SENDING: Final = ("messages", "prompt", "stream")

KEY_MARK: Final = "<key>"
"""Placeholder for the key in a ``WireRequest`` made without one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WireRequest:
    """An HTTP request, ready to be sent: what SillyTavern's server would send for one of its sources.

    If it was made without a key, it contains the placeholder ``<key>``, which the sending model replaces with its own.
    Otherwise the address and the headers may contain a key, so ``repr()`` leaves them out.
    """

    method: str
    """The HTTP method."""
    url: str = field(repr=False)
    """An absolute address, or a path below the base address of the model that sends it."""
    headers: Mapping[str, str] = field(repr=False)
    """The HTTP headers."""
    body: FrozenObject
    """The JSON body."""

    @property
    def needs_key(self) -> bool:
        """True if it contains the placeholder ``<key>``."""
        return any(KEY_MARK in text for text in (self.url, *self.headers.values()))

    def with_key(self, key: str | None) -> WireRequest:
        """Return a copy with ``<key>`` replaced; without a key, headers that need it are left out.

        Raises:
            ConfigError: There is no key and the address needs one.
        """
        if not key and KEY_MARK in self.url:
            raise ConfigError("there is no API key: pass api_key=…", code="API_KEY_REQUIRED")
        headers = {
            name: value.replace(KEY_MARK, key or "")
            for name, value in self.headers.items()
            if key or KEY_MARK not in value
        }
        return dataclasses.replace(self, url=self.url.replace(KEY_MARK, key or ""), headers=headers)


_FROZEN = (Message, MappingProxyType)
"""Types of messages that are not frozen again: those of a request that is changed are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Everything that is sent to a model. A plan makes it; nothing changes it on the way.

    Names of options are OpenAI's whatever the provider (``max_tokens``, ``top_p``, ``seed``…); ``body()``
    translates them. Tools, tool calls and response formats have OpenAI's shape, too. Everything is copied and frozen.
    """

    model: str = ""
    """The model to ask, as the provider names it; if empty, the one that sends the request."""
    messages: Sequence[MessageLike] | None = None
    """The messages of a chat; mappings are in OpenAI's shape. A request has these or ``prompt``."""
    prompt: str | None = None
    """The text for a text-completion endpoint."""
    options: FrozenObject = field(default_factory=lambda: EMPTY_OBJECT)
    """Temperature, limits, penalties, seed and other options; those with their own field move there."""
    stop: Sequence[str] = ()
    """Where the reply ends."""
    tools: Sequence[FrozenObject] = ()
    """Functions that the model may call."""
    tool_choice: FrozenJson = None
    """Whether the model must call a tool, in OpenAI's shape: ``auto``, ``none``, ``required`` or a function."""
    response_format: FrozenObject | None = None
    """The required format of the reply, such as a JSON schema, as in OpenAI's API."""
    dialect: str = "openai"
    """The provider's protocol: ``openai``, ``anthropic``, ``google``, ``text`` or another registered dialect."""
    wire: WireRequest | None = None
    """The exact HTTP request of another program (``plan.request(..., reference=True)``); it is sent as it is."""

    __repr__ = short_repr

    def __post_init__(self) -> None:
        if (self.messages is None) == (self.prompt is None):
            raise ConfigError("a Request has either messages (for a chat) or a prompt (for text completion)")
        set_field = object.__setattr__
        if self.messages is not None:
            frozen = (each if isinstance(each, _FROZEN) else freeze_object(each) for each in self.messages)
            set_field(self, "messages", tuple(frozen))
        options = dict(self.options)
        for name in _OWN_FIELDS:
            moved = options.pop(name, None)
            if moved is not None and not getattr(self, name):
                set_field(self, name, moved)
        for name in _SET_ON_SENDING:
            options.pop(name, None)
        set_field(self, "options", freeze_object(options))
        set_field(self, "stop", _texts(self.stop))
        set_field(self, "tools", _objects(self.tools))
        set_field(self, "tool_choice", freeze(self.tool_choice))
        if self.response_format is not None:
            set_field(self, "response_format", freeze_object(self.response_format))

    @classmethod
    def from_body(cls, body: Mapping[str, object], *, dialect: str = "openai") -> Request:
        """Read the body of a request to OpenAI's API, for a chat or for text completion.

        Args:
            body: The body.
            dialect: The protocol that it will be sent with.

        Raises:
            ConfigError: There are no messages and there is no prompt.
        """
        messages, prompt = body.get("messages"), body.get("prompt")
        return cls(
            messages=tuple(each for each in messages if is_mapping(each)) if is_sequence(messages) else None,
            prompt=prompt if isinstance(prompt, str) and not is_sequence(messages) else None,
            options=body,  # pyright: ignore[reportArgumentType]  # frozen without the messages, which are taken out
            dialect=dialect,
        )

    def replace(
        self,
        *,
        model: str | None = None,
        messages: Sequence[MessageLike] | None = None,
        options: Mapping[str, object] | None = None,
        stop: Sequence[str] | None = None,
        tools: Sequence[Mapping[str, object]] | None = None,
        dialect: str | None = None,
    ) -> Request:
        """Return a copy with some fields changed.

        Args:
            model: The model's name.
            messages: The messages.
            options: All options; they are not merged with the old ones.
            stop: The stop strings.
            tools: The tools.
            dialect: The provider's protocol.
        """
        named = copy_with(
            self,
            model=self.model if model is None else model,
            dialect=self.dialect if dialect is None else dialect,
        )
        if messages is None and options is None and stop is None and tools is None:
            return named  # all that may change is frozen already
        return dataclasses.replace(
            named,
            messages=self.messages if messages is None else tuple(messages),
            options=self.options if options is None else freeze_object(options),
            stop=self.stop if stop is None else tuple(stop),
            tools=self.tools if tools is None else tuple(freeze_object(tool) for tool in tools),
        )

    def body(self, *, stream: bool = False, warn: Warn = log_warning) -> JsonObject:
        """Return the JSON body that goes over the wire.

        Args:
            stream: Ask for the reply piece by piece.
            warn: Called with options that the provider or the model does not accept.
        """
        from tavernkit.models._bodies import request_body

        return request_body(self, stream=stream, warn=warn)


def _texts(value: object) -> tuple[str, ...]:
    listed = value if is_sequence(value) else (value,)
    return tuple(str(each) for each in listed if each not in (None, ""))


def _objects(value: object) -> tuple[FrozenObject, ...]:
    return tuple(freeze_object(each) for each in value if is_mapping(each)) if is_sequence(value) else ()


def with_parts_of_user(request: Request, parts: Sequence[FrozenJson]) -> Request:
    """Return the request with parts (sounds, files) added to the user's last message, if there is one."""
    messages = list(request.messages or ())
    at = next((at for at in reversed(range(len(messages))) if _role(messages[at]) == "user"), None)
    if at is None:
        return request
    last = messages[at]
    if isinstance(last, Message):
        messages[at] = last.replace(attachments=(*(last.attachments or ()), *parts))
    else:
        content = last.get("content")
        listed = content if is_sequence(content) else [{"type": "text", "text": content}]
        messages[at] = {**last, "content": [*listed, *parts]}
    return request.replace(messages=messages)


def _role(message: MessageLike) -> object:
    return message.role if isinstance(message, Message) else message.get("role")
