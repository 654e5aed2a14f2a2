"""What goes into and comes out of the making of a request."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from tavernkit.silly_tavern.providers.config import ServerConfig
from tavernkit.silly_tavern.providers.converters.messages import Messages
from tavernkit.silly_tavern.providers.converters.names import PromptNames
from tavernkit.values import JsonObject, is_list, is_object


@dataclass(frozen=True, slots=True)
class ProviderRequest:
    """A request without its address and key: the path below the provider's root, extra headers and the body."""

    path: str
    body: JsonObject
    headers: dict[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class PageRequest:
    """The body SillyTavern's page sends to its server, with the messages already post-processed."""

    body: JsonObject
    messages: Messages
    names: PromptNames
    config: ServerConfig

    @property
    def model(self) -> str:
        """The model's name."""
        return self.text("model")

    @property
    def tools(self) -> list[JsonObject]:
        """The tools that are offered."""
        tools = self.body.get("tools")
        return [tool for tool in tools if is_object(tool)] if is_list(tools) else []

    @property
    def json_schema(self) -> JsonObject | None:
        """The schema of the answer, if one is asked for: name, description, value."""
        schema = self.body.get("json_schema")
        return schema if is_object(schema) else None

    def text(self, key: str) -> str:
        """Read a text value; anything else gives none."""
        value = self.body.get(key)
        return value if isinstance(value, str) else ""

    def number(self, key: str) -> int:
        """Read a whole number; anything else gives 0."""
        value = self.body.get(key)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            return 0
        return int(value)

    def flag(self, key: str) -> bool:
        """Read a switch."""
        return bool(self.body.get(key))

    def pick(self, keys: Iterable[str]) -> JsonObject:
        """Take those values that are there."""
        return {key: self.body[key] for key in keys if self.body.get(key) is not None}


def without_schema_mark(owner: JsonObject, key: str) -> JsonObject:
    """A copy of an object whose JSON schema under ``key`` does not name its own ``$schema``."""
    schema = owner.get(key)
    if not is_object(schema):
        return owner
    return {**owner, key: {name: item for name, item in schema.items() if name != "$schema"}}
