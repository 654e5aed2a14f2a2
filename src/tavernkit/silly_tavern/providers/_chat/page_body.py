"""The body that SillyTavern's page posts, read by the rules of JavaScript, with its JSON schemas and YAML texts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import field
from random import Random

from tavernkit._dataclass import dataclass
from tavernkit._text.js_values import UNDEFINED, json_stringify, to_number, to_string, truthy
from tavernkit._values import Json, JsonObject, is_list, is_object
from tavernkit.cards._limits import Limits
from tavernkit.cards._yaml_card import parse_yaml
from tavernkit.errors import FileFormatError, LimitExceededError, Warn, log_warning
from tavernkit.silly_tavern.providers._chat.messages import Messages, PromptNames, present
from tavernkit.silly_tavern.providers._request import Connection, SillyTavernConfig


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

    @property
    def max_tokens(self) -> int:
        """The length of the reply; 0 if it is not set."""
        length = self.number("max_tokens")
        return int(length) if math.isfinite(length) else 0

    def number(self, key: str) -> float:
        """Read a value as JavaScript compares it with a number: ``null`` is 0, a missing value is not a number."""
        return to_number(self.body.get(key, UNDEFINED))

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


DEFINITION = "#/$defs/"
MAX_SCHEMA_PARTS, MAX_SCHEMA_DEPTH = 100_000, 200
"""The maximum size and depth of a schema after its references are resolved."""

GOOGLE_SOURCES = ("makersuite", "vertexai")
UNKNOWN_TO_GOOGLE = frozenset({"default", "additionalProperties", "exclusiveMinimum", "propertyNames"})
"""Keys that Google's API refuses. They are removed at every depth, even if they are names of properties."""


def flatten_schema(schema: Json, source: str) -> Json:
    """Replace references with their definitions; a circular reference becomes ``{}``.

    Raises:
        LimitExceededError: The flat schema would have more than ``MAX_SCHEMA_PARTS`` parts.
    """
    if not is_object(schema):
        return schema
    definitions = schema.get("$defs")
    unknown = UNKNOWN_TO_GOOGLE if source in GOOGLE_SOURCES else frozenset[str]()
    top: JsonObject = {key: value for key, value in schema.items() if key != "$defs"}
    flat = _Flattening(definitions if is_object(definitions) else {}, unknown).flatten(top, ())
    # Marks of schemas inside the schema stay.
    return {key: value for key, value in flat.items() if key != "$schema"} if is_object(flat) else flat


class _Flattening:
    def __init__(self, definitions: Mapping[str, Json], unknown: frozenset[str]) -> None:
        self._definitions = definitions
        self._unknown = unknown
        self._parts = 0

    def flatten(self, value: Json, path: tuple[str, ...], depth: int = 0) -> Json:
        """Flatten one value; ``path`` lists the definitions around it."""
        self._parts += 1
        if self._parts > MAX_SCHEMA_PARTS or depth > MAX_SCHEMA_DEPTH:
            raise LimitExceededError(
                f"a JSON schema has more than {MAX_SCHEMA_PARTS} parts or {MAX_SCHEMA_DEPTH} levels",
                limit="MAX_SCHEMA_PARTS" if self._parts > MAX_SCHEMA_PARTS else "MAX_SCHEMA_DEPTH",
            )
        if is_list(value):
            return [self.flatten(item, path, depth + 1) for item in value]
        if not is_object(value):
            return value
        reference = value.get("$ref")
        if isinstance(reference, str) and reference.startswith(DEFINITION):
            # Other keys of a reference are lost. Only the part after the last slash counts.
            name = reference.rpartition("/")[2]
            if name in path or name not in self._definitions:
                return {}
            return self.flatten(self._definitions[name], (*path, name), depth + 1)
        return {key: self.flatten(item, path, depth + 1) for key, item in value.items() if key not in self._unknown}


def named_schema(schema: JsonObject, *, described: bool = False) -> JsonObject:
    """Return OpenAI's ``response_format``: name, strictness and schema; with its description if ``described``."""
    strict = schema.get("strict")  # a schema that does not say is strict
    inner: JsonObject = {
        **present(schema, name="name", schema="value"),
        "strict": True if strict is None else strict,
    }
    if described:
        inner |= present(schema, description="description")
    return {"type": "json_schema", "json_schema": inner}


def described_schema(schema: JsonObject) -> JsonObject:
    """``named_schema()`` with the description."""
    return named_schema(schema, described=True)


def bare_schema(schema: JsonObject) -> JsonObject:
    """Return a ``response_format`` with only the schema."""
    return {"type": "json_schema", "json_schema": present(schema, schema="value")}


JSON_OBJECT: JsonObject = {"type": "json_object"}


def ask_for_schema(messages: Messages, schema: JsonObject) -> Messages:
    """Return messages with the schema in an added last one, for providers with only a generic JSON mode."""
    text = json_stringify(schema["value"], 4) if "value" in schema else "undefined"
    return [*messages, {"role": "user", "content": f"JSON schema for the response:\n{text}"}]


def without_schema_mark(owner: JsonObject, key: str) -> JsonObject:
    """Return a copy of an object whose JSON schema under ``key`` has no ``$schema``."""
    schema = owner.get(key)
    if not is_object(schema):
        return owner
    return {**owner, key: {name: item for name, item in schema.items() if name != "$schema"}}


def yaml_object(text: str, warn: Warn, *, keep_infinity: bool = False) -> JsonObject:
    """Read a YAML mapping, or a merged list of mappings; invalid YAML is reported and adds nothing."""
    value = _yaml(text, warn, keep_infinity=keep_infinity)
    if is_object(value):
        return value
    merged: JsonObject = {}
    for item in value if is_list(value) else []:
        if is_object(item):
            merged.update(item)
    return merged


def yaml_keys(text: str, warn: Warn) -> list[str]:
    """Read the names in a YAML list, the keys of a mapping, or one name."""
    value = _yaml(text, warn)
    if is_list(value):
        return [to_string(item) for item in value]
    if is_object(value):
        return list(value)
    return [value] if isinstance(value, str) else []


def _yaml(text: str, warn: Warn, *, keep_infinity: bool = False) -> Json:
    data = text.encode("utf-8", "surrogatepass")
    try:
        return parse_yaml(data, Limits(), warn, keep_infinity=keep_infinity)
    except FileFormatError as error:
        warn(f"a custom endpoint's YAML is ignored: {error}")
        return None
