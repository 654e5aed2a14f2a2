"""Message transforms: change the outgoing messages in place, just before they are sent."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from tavernkit.text.blank import trim_blanks
from tavernkit.values import JsonObject, is_list, is_object
from tavernkit.vibe_tavern.tool_calling.transforms.registry import TransformRegistry

MessageTransform: TypeAlias = Callable[[list[JsonObject]], object]

SKIP_SIGNATURE = "skip_thought_signature_validator"


def content_null_if_blank(messages: list[JsonObject]) -> None:
    """Send ``null`` in place of blank content beside tool calls."""
    for message in _with_tool_calls(messages):
        content = message.get("content")
        if isinstance(content, str) and not trim_blanks(content):
            message["content"] = None


def reasoning_content_empty_if_missing(messages: list[JsonObject]) -> None:
    """Send an empty ``reasoning_content`` beside tool calls: DeepSeek asks for the field."""
    for message in _with_tool_calls(messages):
        message.setdefault("reasoning_content", "")


def signature_skip_validator_if_missing(messages: list[JsonObject]) -> None:
    """Give every tool call a signature: Gemini asks for one, and takes this in place of its own."""
    for message in _with_tool_calls(messages):
        calls = message["tool_calls"]
        assert is_list(calls)
        for call in calls:
            if is_object(call) and not call.get("signature"):
                call["signature"] = SKIP_SIGNATURE


message_transforms: TransformRegistry[MessageTransform] = TransformRegistry(
    "message",
    {
        "assistant_tool_calls_content_null_if_blank": content_null_if_blank,
        "assistant_tool_calls_reasoning_content_empty_if_missing": reasoning_content_empty_if_missing,
        "assistant_tool_calls_signature_skip_validator_if_missing": signature_skip_validator_if_missing,
    },
)


def _with_tool_calls(messages: list[JsonObject]) -> Iterator[JsonObject]:
    for message in messages:
        if message.get("role") == "assistant" and is_list(message.get("tool_calls")) and message["tool_calls"]:
            yield message
