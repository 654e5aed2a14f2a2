"""Fields and headers that a user adds to requests."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable

from tavernkit._text.js_values import to_number, trim
from tavernkit._values import Json, JsonObject, is_object, is_sequence
from tavernkit.risu_ai._requests.messages import RequestRules

NONE = "{{none}}"
HEADER, JSON_VALUE = "header::", "json::"
_WORDS: dict[str, Json] = {"true": True, "false": False, "null": None}
MAX_PARTS = 32
"""How deep a key with dots may lead."""


def additional_pairs(rules: RequestRules) -> list[tuple[str, str]]:
    """The pairs a user added: of the proxy, or the ``key=value`` lines of a model of their own."""
    if rules.proxied:
        listed = rules.setting("additionalParams")
        rows = [row for row in listed if is_sequence(row) and len(row) > 1] if is_sequence(listed) else []
        return [(str(row[0]), str(row[1])) for row in rows if row[0] and row[1]]
    own = next((each for each in rules.settings.custom_models if each.get("id") == rules.model), None)
    lines = str(own.get("params") or "").split("\n") if own is not None else []
    pairs = (line.partition("=") for line in lines)
    return [(key.strip(), value.strip()) for key, _, value in pairs if key.strip() and value.strip()]


def add_fields(body: JsonObject, headers: dict[str, str], pairs: Iterable[tuple[str, str]]) -> None:
    """Set or remove fields of the body and headers, in order."""
    for key, value in pairs:
        if key.startswith(HEADER):
            name = key.removeprefix(HEADER)
            if value == NONE:
                headers.pop(name, None)
            else:
                headers[name] = value
        elif value == NONE:
            body.pop(key, None)
        elif value.startswith(JSON_VALUE):
            try:
                body[key] = json.loads(value.removeprefix(JSON_VALUE))
            except (ValueError, RecursionError):
                continue
        else:
            _set(body, key.split(".")[:MAX_PARTS], _value(value))


def _set(body: JsonObject, path: list[str], value: Json) -> None:
    *parents, last = path
    for name in parents:
        inner = body.get(name)
        if not is_object(inner):
            inner = body[name] = {}
        body = inner
    body[last] = value


def _value(text: str) -> Json:
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
        return text[1:-1]
    if text in _WORDS:
        return _WORDS[text]
    number = to_number(text)
    if not trim(text) or not math.isfinite(number):
        return text
    return int(number) if abs(number) < 2**53 and number == int(number) else number
