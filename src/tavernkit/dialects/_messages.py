"""What dialects read from a message: its content and metadata, tool calls and tool results."""

from __future__ import annotations

import json
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from tavernkit._dataclass import dataclass
from tavernkit._text.strict_json import plain_text
from tavernkit._text.traced import join
from tavernkit._values import FrozenJson, JsonObject, is_mapping, is_object, is_sequence, thaw, thaw_object
from tavernkit.errors import ConfigError, Warn
from tavernkit.prompt._block import Message

MessageLike: TypeAlias = Message | Mapping[str, object]
"""A message, or one in OpenAI's shape (``{"role": …, "content": …}``)."""

_METADATA_KEYS = frozenset({"role", "content", "name", "attachments", "metadata"})


def as_messages(messages: Iterable[MessageLike]) -> list[Message]:
    """Convert messages to ``Message`` values."""
    return [message if isinstance(message, Message) else message_from_openai(message) for message in messages]


def message_from_openai(message: Mapping[str, object]) -> Message:
    """Read a message in OpenAI's shape: text parts become the content, other parts attachments, the rest metadata.

    Raises:
        ConfigError: It is not a mapping with a role.
    """
    if not is_mapping(message) or not isinstance(message.get("role"), str):
        raise ConfigError(f"a message must be a Message or a mapping with a role, not {message!r:.80}")
    text, parts = read_content(message.get("content"))
    attachments = [*parts, *_list(message.get("attachments"))]
    metadata = {key: value for key, value in message.items() if key not in _METADATA_KEYS}
    if is_mapping(inner := message.get("metadata")):
        metadata.update(inner)
    name = message.get("name")
    return Message(
        role=str(message["role"]),
        content=text,
        name=None if name is None else str(name),
        attachments=attachments or None,  # pyright: ignore[reportArgumentType]  # frozen by Message
        metadata=metadata or None,  # pyright: ignore[reportArgumentType]  # frozen by Message
    )


def metadata_value(message: Message, key: str) -> FrozenJson:
    """Return a metadata value; None and False count as absent, an empty text or list does not."""
    value = message.metadata.get(key) if message.metadata else None
    return None if value is False else value


def warn_about_loss(messages: Sequence[Message], dialect: str, warn: Warn, *, tools: bool, attachments: bool) -> None:
    """Warn about what a dialect leaves out of these messages: tool data, attachments or both."""
    lost_tools = lost_attachments = 0
    for message in messages:
        if tools and (metadata_value(message, "tool_calls") or metadata_value(message, "tool_call_id")):
            lost_tools += 1
        if attachments and message.attachments:
            lost_attachments += 1
    if lost_tools:
        warn(f"the {dialect} dialect leaves out tool calls and tool results' ids ({lost_tools} messages have them)")
    if lost_attachments:
        warn(f"the {dialect} dialect leaves out attachments here ({lost_attachments} messages have them)")


def read_content(content: object) -> tuple[str, list[object]]:
    """Return the text of a content in OpenAI's shape, and its other parts, such as pictures."""
    if is_mapping(content):  # a single part
        content = [content]
    if not is_sequence(content):
        return plain_text(content), []
    texts: list[str] = []
    parts: list[object] = []
    for part in content:
        if is_mapping(part) and part.get("type") in ("text", "input_text") and isinstance(part.get("text"), str):
            texts.append(str(part["text"]))
        elif isinstance(part, str):
            texts.append(part)
        else:
            parts.append(part)
    return join("\n", texts), parts


def _list(value: object) -> Sequence[object]:
    return value if is_sequence(value) else []


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call a model made. ``arguments`` is always an object, whatever the model wrote."""

    id: str
    name: str
    arguments: JsonObject
    signature: str | None = None


def tool_calls(message: Message, warn: Warn) -> list[ToolCall]:
    """Return the calls of a message; arguments that are not an object become an empty one, with a warning."""
    raw = metadata_value(message, "tool_calls")
    if not is_sequence(raw):
        return []
    return [call for call in (_parse(each, warn) for each in raw) if call is not None]


def call_names(message: Message) -> list[tuple[str, str]]:
    """Return the ids and names of the calls of a message, without reading their arguments."""
    raw = metadata_value(message, "tool_calls")
    if not is_sequence(raw):
        return []
    return [(_text(each.get("id")), _text(_function(each).get("name"))) for each in raw if is_mapping(each)]


def tool_call_id(message: Message) -> str:
    """Return the id of the call that a tool message answers; empty if it has none."""
    value = metadata_value(message, "tool_call_id")
    return "" if value is None else str(value)


def json_object(content: str) -> JsonObject | None:
    """Return a tool's result or the arguments of a call as an object, or None if the text is not a JSON object."""
    if "{" not in content:
        return None
    try:
        value: object = _DECODER.decode(content)
    except (ValueError, RecursionError):
        return None
    return value if is_object(value) else None


def failed(content: str) -> bool:
    """Return True if a tool's result is an envelope that says ``"ok": false``."""
    envelope = json_object(content)
    return envelope is not None and envelope.get("ok") is False


def _parse(raw: object, warn: Warn) -> ToolCall | None:
    if not is_mapping(raw):
        warn(f"a tool call that is not an object was left out: {thaw(raw)!r:.200}")
        return None
    called = _function(raw)
    name = _text(called.get("name"))
    signature = raw.get("signature")
    return ToolCall(
        id=_text(raw.get("id")),
        name=name,
        arguments=_arguments(called.get("arguments"), name, warn),
        signature=signature if isinstance(signature, str) else None,
    )


def _function(call: Mapping[str, object]) -> Mapping[str, object]:
    function, custom = call.get("function"), call.get("custom")
    if is_mapping(function):
        return function
    # OpenAI's custom tools take a text; other providers know only functions.
    return {"name": custom.get("name"), "arguments": {"input": custom.get("input")}} if is_mapping(custom) else {}


def _arguments(value: object, name: str, warn: Warn) -> JsonObject:
    if value is None:
        return {}
    if is_mapping(value):
        return thaw_object(value)
    parsed = json_object(value) if isinstance(value, str) else None
    if parsed is None:
        warn(f"the arguments of a call of tool {name!r} are not a JSON object and were left out: {thaw(value)!r:.500}")
        return {}
    return parsed


def _refuse_constant(name: str) -> object:
    # Python parses NaN and Infinity, which no provider accepts.
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


def _text(value: object) -> str:
    return "" if value is None else str(value)


NO_RESULT = '{"ok":false,"errors":[{"code":"NO_RESULT","message":"the tool gave no result"}]}'
"""Replaces a missing result, because providers refuse requests without one."""


def settle_tool_results(messages: Sequence[Message], warn: Warn) -> list[Message]:
    """Move tool results to their calls, answer open calls with ``NO_RESULT``, turn stray results into user text.

    Every assistant message is followed by exactly one tool message for each of its calls, in the order of the calls.
    """
    calls = {position: call_names(message) for position, message in enumerate(messages) if message.role == "assistant"}
    answers, strays = _match(messages, calls)
    settled: list[Message] = []
    for position, message in enumerate(messages):
        if message.role != "tool":
            settled.append(message)
            settled += [
                answers.get((position, index)) or _no_result(call_id, name, warn)
                for index, (call_id, name) in enumerate(calls.get(position, ()))
            ]
        elif position in strays:
            warn(f"tool message {position} answers no call in this prompt and is sent as user text")
            settled.append(message.replace(role="user", metadata=None))
    return settled


def _match(
    messages: Sequence[Message], calls: dict[int, list[tuple[str, str]]]
) -> tuple[dict[tuple[int, int], Message], set[int]]:
    # Ids may repeat: the latest turn is answered first, its calls in their order.
    waiting: defaultdict[str, list[deque[tuple[int, int]]]] = defaultdict(list)
    answers: dict[tuple[int, int], Message] = {}
    strays: set[int] = set()
    for position, message in enumerate(messages):
        for index, (call_id, _) in enumerate(calls.get(position, ())):
            turns = waiting[call_id]
            if not turns or turns[-1][-1][0] != position:
                turns.append(deque())
            turns[-1].append((position, index))
        if message.role == "tool":
            turns = waiting[tool_call_id(message)]
            if not turns:
                strays.add(position)
                continue
            answers[turns[-1].popleft()] = message
            if not turns[-1]:
                turns.pop()
    return answers, strays


def _no_result(call_id: str, name: str, warn: Warn) -> Message:
    warn(f"the call {call_id!r} of tool {name!r} has no result in this prompt; a result that says so is sent")
    return Message(role="tool", content=NO_RESULT, metadata={"tool_call_id": call_id})
