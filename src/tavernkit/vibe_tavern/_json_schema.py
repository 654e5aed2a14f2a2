"""Makes JSON schemas from mappings, pydantic models, dataclasses and other types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from tavernkit._values import Json, JsonObject, is_list, is_mapping, is_object, shown, thaw_object
from tavernkit.errors import ConfigError


def json_schema_of(source: object, name: str = "a schema") -> JsonObject:
    """Return a JSON schema as plain JSON.

    ``source`` is a mapping (used as the schema), None (an empty schema), an object with ``json_schema`` (an
    attribute or a method), or a type that pydantic can describe. ``name`` is what messages call it.
    """
    if source is None:
        return {}
    if is_mapping(source):
        return thaw_object(source)
    provided: object = getattr(source, "json_schema", None)
    if provided is not None:
        schema: object = provided() if callable(provided) else provided
        if is_mapping(schema):
            return thaw_object(schema)
        raise ConfigError(f"{name}: json_schema of {source!r} must give a mapping", code="INVALID_JSON_SCHEMA")
    return _described_by_pydantic(source, name)


def without_empty_required(schema: Mapping[str, object]) -> JsonObject:
    """Remove ``required: []`` at any depth: some providers refuse it."""
    return _prune_object(thaw_object(schema))


def _prune(value: Json) -> Json:
    if is_object(value):
        return _prune_object(value)
    if is_list(value):
        return [_prune(item) for item in value]
    return value


def _prune_object(value: JsonObject) -> JsonObject:
    return {key: _prune(item) for key, item in value.items() if not (key == "required" and item == [])}


def _described_by_pydantic(source: object, name: str) -> JsonObject:
    from pydantic import PydanticSchemaGenerationError, PydanticUserError, TypeAdapter

    try:
        return TypeAdapter(cast("type[object]", source)).json_schema()
    except (PydanticSchemaGenerationError, PydanticUserError, TypeError) as error:
        raise ConfigError(
            f"{name} must be a JSON schema, a pydantic model or a dataclass, not {shown(source)}",
            code="INVALID_JSON_SCHEMA",
        ) from error
