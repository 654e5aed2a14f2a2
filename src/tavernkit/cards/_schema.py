"""The JSON schema of a card, for editors, forms, and models that write cards."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tavernkit._values import Json, JsonObject, thaw_object
from tavernkit.cards._asset_list import ASSET_FIELDS, read_assets
from tavernkit.cards._book import BOOK_FIELDS, ENTRY_FIELDS, read_book
from tavernkit.cards._character import (
    CARD_FIELDS,
    REQUIRED,
    SPEC_VERSIONS,
    V1_FIELDS,
    V3_FIELDS,
    CardVersion,
)
from tavernkit.cards._fields import (
    Field,
    read_bool,
    read_date,
    read_id,
    read_number,
    read_object,
    read_optional_bool,
    read_optional_number,
    read_optional_text,
    read_tags,
    read_text,
    read_text_map,
    read_texts,
)
from tavernkit.cards._validation_rules import ENTRY_REQUIRED

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_TEXT: JsonObject = {"type": "string"}
_TEXTS: JsonObject = {"type": "array", "items": _TEXT}
_NUMBER: JsonObject = {"type": "number"}
_BOOLEAN: JsonObject = {"type": "boolean"}
_OBJECT: JsonObject = {"type": "object"}

_BY_READER: Mapping[object, JsonObject] = {
    read_text: _TEXT,
    read_optional_text: _TEXT,
    read_texts: _TEXTS,
    read_tags: _TEXTS,
    read_number: _NUMBER,
    read_optional_number: _NUMBER,
    read_bool: _BOOLEAN,
    read_optional_bool: _BOOLEAN,
    read_object: _OBJECT,
    read_text_map: {"type": "object", "additionalProperties": _TEXT},
    read_date: {"type": "integer", "description": "Unix seconds, UTC"},
    read_id: {"type": ["number", "string"]},
}
_BY_KEY: Mapping[str, JsonObject] = {"position": {"enum": ["before_char", "after_char"]}}


def card_schema(version: CardVersion = "v3") -> JsonObject:
    """Return the JSON schema of a card version; unknown keys are allowed, as in cards."""
    newer = {field.key for field in V3_FIELDS} if version == "v2" else set[str]()
    fields = V1_FIELDS if version == "v1" else [field for field in CARD_FIELDS if field.key not in newer]
    data = _object(fields, REQUIRED[version], version)
    head: JsonObject = {"$schema": _DIALECT, "title": f"Character card {version.upper()}"}
    if version == "v1":
        return head | data
    spec: JsonObject = {
        "spec": {"const": f"chara_card_{version}"},
        "spec_version": {"const": SPEC_VERSIONS[version]},
        "data": data,
    }
    return {**head, "type": "object", "required": [*spec], "properties": spec}


def _object(fields: Iterable[Field[Any]], required: Iterable[str], version: CardVersion) -> JsonObject:
    properties: JsonObject = {field.key: _property(field, version) for field in fields}
    return {"type": "object", "required": list[Json](required), "properties": properties}


def _property(field: Field[Any], version: CardVersion) -> Json:
    if field.read is read_book:
        return _book(version)
    if field.read is read_assets:
        return {"type": "array", "items": _object(ASSET_FIELDS, [each.key for each in ASSET_FIELDS], version)}
    schema = thaw_object(_BY_KEY.get(field.key) or _BY_READER[field.read])
    return {"anyOf": [schema, {"type": "null"}]} if field.default is None else schema


def _book(version: CardVersion) -> JsonObject:
    regex = ("use_regex",) if version == "v3" else ()
    entry_fields = [field for field in ENTRY_FIELDS if regex or field.key != "use_regex"]
    book = _object([field for field in BOOK_FIELDS if field.key != "entries"], ("extensions", "entries"), version)
    properties = book["properties"]
    assert isinstance(properties, dict)
    properties["entries"] = {"type": "array", "items": _object(entry_fields, (*ENTRY_REQUIRED, *regex), version)}
    return book
