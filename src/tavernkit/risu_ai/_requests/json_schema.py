"""JSON schemas as RisuAI's users write them: as an interface, one key per line."""

from __future__ import annotations

import re

from tavernkit._values import Json, JsonObject
from tavernkit.risu_ai._requests.messages import RequestRules

DIALECT = "https://json-schema.org/draft/2020-12/schema"
MAX_SCHEMA = 100_000
"""Characters of a schema that are read."""

_KEY = re.compile(r"\s*[\"']?([\w$-]+)[\"']?\s*\??\s*:\s*([\w$]+)\s*((?:\[\s*\]\s*)*)[;,]?\s*")
_TYPES = frozenset({"string", "number", "boolean"})


def wanted_schema(rules: RequestRules) -> JsonObject | None:
    """The schema that replies must follow, if the user wants one."""
    text = rules.setting("jsonSchema")
    return schema_of(text) if rules.setting("jsonSchemaEnabled") and isinstance(text, str) else None


def schema_of(text: str) -> JsonObject:
    """Turn an interface into a schema: all keys are required, no others are allowed."""
    properties: JsonObject = {}
    lines = text[:MAX_SCHEMA].strip().split("\n")
    for line in lines[1:]:  # the first one opens the interface
        found = _KEY.fullmatch(line)
        if found is not None and found[2] in _TYPES:
            kind: Json = {"type": found[2]}
            for _ in range(found[3].count("[")):
                kind = {"type": "array", "items": kind}
            properties[found[1]] = kind
    return {
        "$schema": DIALECT,
        "type": "object",
        "additionalProperties": False,
        "properties": properties,
        "required": [*properties],
    }
