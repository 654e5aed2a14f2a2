"""OpenAI-style messages as converters read them, and the names that they write before messages."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from tavernkit._dataclass import dataclass
from tavernkit._text.js_values import UNDEFINED, to_string, truthy
from tavernkit._values import Json, JsonObject, is_list, is_object, thaw_object
from tavernkit.errors import TavernKitError


class MessageConversionError(TavernKitError):
    """A message has content that a provider's format does not support."""


class ToolArgumentsError(MessageConversionError):
    """The arguments of a tool call are a text that is not JSON."""


Messages: TypeAlias = list[JsonObject]
"""OpenAI-style messages that a converter may change."""

SEPARATOR = "\n\n"
"""What stands between joined texts."""
_DATA_URL = re.compile(r"^data:([^;,]*+)[^,]*+,(.*)$", re.DOTALL)


def copied(messages: object) -> Messages:
    """Return deep copies of the messages in a list; empty for anything else."""
    return [thaw_object(message) for message in messages if is_object(message)] if is_list(messages) else []


def text_of(message: JsonObject) -> str:
    """Return the content as text; empty for missing, null and other empty values."""
    content = message.get("content")
    return to_string(content) if truthy(content) else ""


def string_content(message: JsonObject) -> str:
    """Return the content, which must be text: names cannot be written into anything else."""
    content = message.get("content")
    if not isinstance(content, str):
        raise MessageConversionError(
            f"the content of a {message.get('role')} message named {message.get('name')!r} must be text here, "
            f"not {type(content).__name__}"
        )
    return content


def printed_content(message: JsonObject) -> str:
    """Return the content as JavaScript concatenates it: ``null`` and ``undefined`` are written out."""
    return to_string(message.get("content", UNDEFINED))


def present(owner: JsonObject, **sources: str) -> JsonObject:
    """Return existing values of an object under new keys (including ``null``)."""
    return {key: owner[source] for key, source in sources.items() if source in owner}


def part_text(part: Json) -> str:
    """Return the text of a text part; empty for other parts."""
    if is_object(part) and part.get("type") == "text":
        text = part.get("text")
        return to_string(text) if truthy(text) else ""
    return ""


def part_url(part: JsonObject, kind: str) -> str:
    """Return the address of a picture, video or audio part."""
    media = part.get(kind)
    url = media.get("url") if is_object(media) else None
    return url if isinstance(url, str) else ""


def part_data(part: JsonObject, kind: str) -> tuple[str, str] | None:
    """Return the media type, which may be empty, and the data of a part with a ``data:`` address; None for others."""
    found = _DATA_URL.match(part_url(part, kind))
    return (found[1], found[2]) if found else None


def tool_calls(message: JsonObject) -> Sequence[JsonObject]:
    """The tool calls of a message."""
    calls = message.get("tool_calls")
    return [call for call in calls if is_object(call)] if is_list(calls) else []


def function_of(tool: JsonObject) -> JsonObject:
    """The function of a tool, of a tool call or of a tool choice."""
    function = tool.get("function")
    return function if is_object(function) else {}


EXAMPLE_USER = "example_user"
EXAMPLE_ASSISTANT = "example_assistant"


@dataclass(frozen=True, slots=True)
class PromptNames:
    """The user, the character and the other members of a group chat."""

    char_name: str = ""
    user_name: str = ""
    group_names: Sequence[str] = ()

    @classmethod
    def from_request(cls, body: Mapping[str, Json]) -> PromptNames:
        """Read ``char_name``, ``user_name`` and ``group_names`` of a request."""
        groups = body.get("group_names")
        return cls(
            char_name=_text(body.get("char_name")),
            user_name=_text(body.get("user_name")),
            group_names=tuple(to_string(name) for name in groups) if is_list(groups) else (),
        )

    def starts_with_group_name(self, text: str) -> bool:
        """Return True if a text already starts with a member's name."""
        return any(text.startswith(f"{name}: ") for name in self.group_names)

    def as_user(self, text: str) -> str:
        """Put the user's name before an example, unless it is already there or unknown."""
        prefix = self.user_name + ": "
        return text if not self.user_name or text.startswith(prefix) else prefix + text

    def as_character(self, text: str) -> str:
        """Put the character's name before a text, unless it has a speaker or the name is unknown."""
        prefix = self.char_name + ": "
        known = text.startswith(prefix) or self.starts_with_group_name(text)
        return text if not self.char_name or known else prefix + text

    def name_example(self, message: JsonObject) -> None:
        """Put the speaker before a system message that is part of an example dialogue.

        Content that is not text stays unchanged unless a known name must be written into it.
        """
        if message.get("role") != "system":
            return
        if message.get("name") == EXAMPLE_USER and self.user_name:
            message["content"] = self.as_user(string_content(message))
        elif message.get("name") == EXAMPLE_ASSISTANT and self.char_name:
            message["content"] = self.as_character(string_content(message))


def with_prefix(text: str, name: str) -> str:
    """Put a name before a text, unless it is already there."""
    prefix = name + ": "
    return text if text.startswith(prefix) else prefix + text


def _text(value: Json) -> str:
    return "" if value is None or value == "" else to_string(value)
