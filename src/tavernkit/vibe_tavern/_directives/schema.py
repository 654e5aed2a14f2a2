"""The ``response_format`` that asks for a directives envelope."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tavernkit._text.coerce import trim_blanks
from tavernkit._values import Json, JsonObject, thaw_object

SCHEMA_NAME = "tavern_directives"


def response_format(
    *,
    strict: bool = True,
    name: str = SCHEMA_NAME,
    types: Sequence[str] | None = None,
    payload_schemas: Mapping[str, Mapping[str, object]] | None = None,
) -> JsonObject:
    """Build the ``json_schema`` response format.

    ``types`` becomes the enum of ``type``. With ``payload_schemas`` (type to JSON schema) each of those types has its
    own item schema; others have a free payload.
    """
    return {
        "type": "json_schema",
        "json_schema": {"name": name, "strict": strict, "schema": envelope_schema(types, payload_schemas)},
    }


def envelope_schema(
    types: Sequence[str] | None = None, payload_schemas: Mapping[str, Mapping[str, object]] | None = None
) -> JsonObject:
    """Build the JSON schema of the envelope."""
    known = unique_types(types)
    schemas = {kind: thaw_object(schema) for kind, schema in (payload_schemas or {}).items()}
    if schemas:
        free = [kind for kind in known if kind not in schemas]
        items: list[Json] = [_item([kind], schema) for kind, schema in schemas.items()]
        if free or not known:
            items.append(_item(free, _free_payload()))
        item: JsonObject = {"anyOf": items} if len(items) > 1 else _object(items[0])
    else:
        item = _item(known, _free_payload())
    return {
        "type": "object",
        "additionalProperties": False,
        "required": ["assistant_text", "directives"],
        "properties": {"assistant_text": {"type": "string"}, "directives": {"type": "array", "items": item}},
    }


def unique_types(types: Sequence[object] | None) -> list[str]:
    """Trim directive types, and remove blank ones and duplicates."""
    trimmed = (trim_blanks(str(kind)) for kind in types or () if kind is not None)
    return list(dict.fromkeys(kind for kind in trimmed if kind))


def _item(types: Sequence[str], payload: JsonObject) -> JsonObject:
    kind: JsonObject = {"type": "string"}
    if types:
        kind["enum"] = list[Json](types)
    return {
        "type": "object",
        "additionalProperties": False,
        "required": ["type", "payload"],
        "properties": {"type": kind, "payload": payload},
    }


def _free_payload() -> JsonObject:
    return {"type": "object", "additionalProperties": True}


def _object(value: Json) -> JsonObject:
    assert isinstance(value, dict)
    return value
