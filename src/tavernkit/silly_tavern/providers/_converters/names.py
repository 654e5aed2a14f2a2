"""The names that converters write before messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tavernkit._dataclass import dataclass
from tavernkit._text.js_values import to_string
from tavernkit._values import Json, JsonObject, is_list
from tavernkit.silly_tavern.providers._converters.messages import string_content

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
