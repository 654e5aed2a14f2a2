"""The JSON schema of test files, for editors."""

from __future__ import annotations

from tavernkit._values import Json, JsonObject
from tavernkit.authoring._case_file import (
    FILE_INPUTS,
    FILES_INPUTS,
    FLAG_INPUTS,
    NUMBER_INPUTS,
    PLACEMENTS,
    PLATFORMS,
    ROLES,
    TEXT_INPUTS,
)

_TEXT: JsonObject = {"type": ["string", "number"]}
_NUMBER: JsonObject = {"type": "integer"}


def case_schema() -> JsonObject:
    """Build the schema of ``*.tavern.yaml``."""
    inputs = _inputs()
    test: JsonObject = {
        **_object({"name": _TEXT, **inputs, "expect": _expectations()}),
        "required": ["expect"],
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Tests of cards, lorebooks and presets",
        **_object({"defaults": _object(inputs), "tests": {"type": "array", "minItems": 1, "items": test}}),
        "required": ["tests"],
    }


def _inputs() -> JsonObject:
    found: JsonObject = {}
    for name in (*FILE_INPUTS, *TEXT_INPUTS):
        found[name] = _TEXT
    for name in FILES_INPUTS:
        found[name] = _one_or_more({"type": "string"})
    for name in NUMBER_INPUTS:
        found[name] = _NUMBER
    for name in FLAG_INPUTS:
        found[name] = {"type": "boolean"}
    line: Json = {"anyOf": [{"type": "string"}, _object({"user": _TEXT, "char": _TEXT})]}
    found["chat"] = {"anyOf": [{"type": "string"}, {"type": "array", "items": line}]}
    found["platforms"] = _one_or_more({"enum": [*PLATFORMS]})
    return found


def _expectations() -> JsonObject:
    text = _object({"text": _TEXT, "role": {"enum": [*ROLES]}, "depth": _NUMBER, "before": _TEXT, "after": _TEXT})
    script = _object({"text": _TEXT, "placement": {"enum": [*PLACEMENTS]}, "gives": _TEXT})
    return _object(
        {
            "fires": _one_or_more(_TEXT),
            "stays_out": _one_or_more(_TEXT),
            "contains": _one_or_more({"anyOf": [_TEXT, {**text, "required": ["text"]}]}),
            "lacks": _one_or_more({"anyOf": [_TEXT, {**text, "required": ["text"]}]}),
            "max_tokens": _NUMBER,
            "macros": {"type": "object", "additionalProperties": _TEXT},
            "scripts": _one_or_more({**script, "required": ["text", "gives"]}),
        }
    )


def _one_or_more(item: JsonObject) -> JsonObject:
    return {"anyOf": [item, {"type": "array", "items": item}]}


def _object(properties: JsonObject) -> JsonObject:
    return {"type": "object", "additionalProperties": False, "properties": properties}
