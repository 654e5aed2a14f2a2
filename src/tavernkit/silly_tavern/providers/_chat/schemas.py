"""JSON schemas of replies and tools, in the formats of providers."""

from __future__ import annotations

from collections.abc import Mapping

from tavernkit._text.js_values import json_stringify
from tavernkit._values import Json, JsonObject, is_list, is_object
from tavernkit.errors import LimitExceededError
from tavernkit.silly_tavern.providers._converters.messages import Messages, present

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
            name = reference.rpartition("/")[2]
            if name in path or name not in self._definitions:
                return {}
            return self.flatten(self._definitions[name], (*path, name), depth + 1)
        return {key: self.flatten(item, path, depth + 1) for key, item in value.items() if key not in self._unknown}


def named_schema(schema: JsonObject, *, described: bool = False) -> JsonObject:
    """Return OpenAI's ``response_format``: name, strictness and schema; with its description if ``described``."""
    strict = schema.get("strict")
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
