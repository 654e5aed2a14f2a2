"""The YAML texts of a custom endpoint: fields and headers to add, fields to leave out."""

from __future__ import annotations

from tavernkit._text.js_values import to_string
from tavernkit._values import Json, JsonObject, is_list, is_object
from tavernkit.cards._limits import Limits
from tavernkit.cards._yaml_card import parse_yaml
from tavernkit.errors import FileFormatError, Warn


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
