"""Reads the body that SillyTavern's page posts, by the rules of JavaScript."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import field
from random import Random

from tavernkit._dataclass import dataclass
from tavernkit._text.js_values import truthy
from tavernkit._values import Json, JsonObject, is_list, is_object
from tavernkit.errors import Warn, log_warning
from tavernkit.silly_tavern.providers._config import SillyTavernConfig
from tavernkit.silly_tavern.providers._converters.messages import Messages
from tavernkit.silly_tavern.providers._converters.names import PromptNames
from tavernkit.silly_tavern.providers._request import Connection


@dataclass(frozen=True, slots=True)
class Made:
    """A source's request from the page's body, without address and key."""

    body: JsonObject
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    path: str | None = None
    """The path below the root, if it is not the usual one."""


@dataclass(frozen=True, slots=True)
class PageBody:
    """The page's body after the common steps of all sources, and other inputs of a request.

    ``messages`` are post-processed; ``prompt`` is set instead if the page sent a text. ``json_schema`` is flattened.
    ``proxy`` is the reverse proxy, if the source honours one; ``key`` is the stored key, or the proxy's password.
    """

    body: Mapping[str, Json]
    messages: Messages
    prompt: str | None
    json_schema: JsonObject | None
    names: PromptNames
    config: SillyTavernConfig
    connection: Connection
    proxy: str = ""
    key: str = field(default="", repr=False)
    random: Random = field(default_factory=Random)
    warn: Warn = log_warning

    @property
    def source(self) -> str:
        """The chat-completion source."""
        return self.text("chat_completion_source")

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
    def effort(self) -> str:
        """The reasoning effort; empty if it is not set."""
        return self.text("reasoning_effort")

    @property
    def stops(self) -> list[Json]:
        """The stop strings, if they are a list."""
        stops = self.body.get("stop")
        return stops if is_list(stops) else []

    def text(self, key: str) -> str:
        """Read a text value; empty for anything else."""
        value = self.body.get(key)
        return value if isinstance(value, str) else ""

    def number(self, key: str) -> float:
        """Read a number; 0 for anything else."""
        value = self.body.get(key)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            return 0
        return value

    def is_set(self, key: str) -> bool:
        """Return True if a value exists and is not ``0``, ``""``, ``false`` or ``null``; ``[]`` counts as set."""
        return truthy(self.body.get(key))

    def pick(self, keys: Iterable[str]) -> JsonObject:
        """Return the existing values (including ``null``)."""
        return {key: self.body[key] for key in keys if key in self.body}

    def offered_tools(self) -> JsonObject:
        """The fields ``tools`` and ``tool_choice``, if tools are offered."""
        tools = self.body.get("tools")
        return {"tools": tools, **self.pick(("tool_choice",))} if is_list(tools) and tools else {}

    def token_probabilities(self) -> JsonObject:
        """The fields ``logprobs`` and ``top_logprobs``, if the page asks for probabilities."""
        count = self.body.get("logprobs")
        return {"logprobs": True, "top_logprobs": count} if self.number("logprobs") > 0 else {}
