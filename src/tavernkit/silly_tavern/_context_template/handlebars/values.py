"""Values in a template, with JavaScript's semantics."""

from __future__ import annotations

from collections.abc import Mapping

from tavernkit._text.js_values import is_index_key, utf16_length, utf16_slice
from tavernkit._values import is_mapping


class ParameterText(str):
    """The text of a parameter, with its name, so that a rendering knows where its characters came from."""

    __slots__ = ("parameter", "text")

    parameter: str
    text: str

    def __new__(cls, parameter: str, text: str) -> ParameterText:
        """Mark a text."""
        made = super().__new__(cls, text)
        made.parameter = parameter
        made.text = text
        return made


def parameters(texts: Mapping[str, str]) -> dict[str, object]:
    """Mark the texts of a template's parameters."""
    return {name: ParameterText(name, text) for name, text in texts.items()}


def member(value: object, name: str) -> object:
    """A member of a value: of an object by its key, of a text its length or a character; else undefined."""
    if is_mapping(value):
        return value.get(name)
    if isinstance(value, str):
        if name == "length":
            return float(utf16_length(value))
        if is_index_key(name) and int(name) < utf16_length(value):
            return utf16_slice(value, int(name), int(name) + 1)
    return None


def is_empty(value: object) -> bool:
    """True if ``with`` and ``each`` take their else part: for everything false except zero."""
    return not value and not (isinstance(value, (int, float)) and not isinstance(value, bool))
