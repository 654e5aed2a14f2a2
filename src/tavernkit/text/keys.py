"""Spellings of keys: ``snake_case`` and ``camelCase``, and reading a mapping that may use either."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping

from tavernkit.text.blank import presence, trim_blanks
from tavernkit.text.coerce import boolean
from tavernkit.values import EMPTY_OBJECT, is_mapping, is_sequence

_ACRONYM_END = re.compile(r"(?<=[A-Z])(?=[A-Z][a-z])")
_WORD_END = re.compile(r"([a-z0-9])([A-Z])")
_SEPARATED = re.compile(r"(?<![_-])[_-]++([A-Za-z0-9])")
_PLACEHOLDER = re.compile(r"\{([0-9]{1,9})\}")
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")


def underscore(key: str) -> str:
    """Write a key in ``snake_case``; the ``::`` of nested names becomes ``/``."""
    key = _ACRONYM_END.sub("_", key.replace("::", "/"))
    return _WORD_END.sub(r"\1_\2", key).replace("-", "_").lower()


def camelize(key: str) -> str:
    """Write a key in ``camelCase``."""
    key = _SEPARATED.sub(lambda found: found[1].upper(), key)
    return key[:1].lower() + key[1:]


def convert_keys(value: object, convert: Callable[[str], str]) -> object:
    """Copy JSON-like data with all keys converted, however deep; of keys that become equal the last wins."""
    return _convert_keys(value, convert)


def _convert_keys(value: object, convert: Callable[[str], str]) -> object:
    if is_mapping(value):
        return {convert(str(key)): _convert_keys(item, convert) for key, item in value.items()}
    if is_sequence(value):
        return [_convert_keys(item, convert) for item in value]
    return value


def format_text(template: str, *arguments: object) -> str:
    """Fill ``{0}``, ``{1}``, … with arguments; a placeholder without an argument stays."""

    def fill(found: re.Match[str]) -> str:
        index = int(found[1])
        return str(arguments[index]) if index < len(arguments) else found[0]

    return _PLACEHOLDER.sub(fill, template)


class KeyReader:
    """Reads a mapping whose keys may be spelled as given, in ``snake_case`` or in ``camelCase``.

    ``extension`` names a key in the mapping's ``extensions`` that is used when the key itself is missing.
    """

    __slots__ = ("_extensions", "_values")

    def __init__(self, values: Mapping[str, object]) -> None:
        self._values = values
        extensions = values.get("extensions")
        self._extensions = extensions if is_mapping(extensions) else EMPTY_OBJECT

    def get(self, key: str, default: object = None, *, extension: str | None = None) -> object:
        """Return the value of a key in any spelling."""
        for values, name in ((self._values, key), (self._extensions, extension)):
            if name is None:
                continue
            for spelling in (name, underscore(name), camelize(name)):
                if values.get(spelling) is not None:
                    return values[spelling]
        return default

    def boolean(self, key: str, default: bool = False, *, extension: str | None = None) -> bool:
        """Return yes or no, in any of the ways people write it."""
        return boolean(self.get(key, extension=extension), default)

    def integer(self, key: str, default: int | None = None, *, extension: str | None = None) -> int | None:
        """Return an integer; a fraction is dropped, integer text is read."""
        value = self.get(key, extension=extension)
        if isinstance(value, str) and _INTEGER.fullmatch(trim_blanks(value)):
            return int(trim_blanks(value))
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            return default
        return math.trunc(value)

    def positive_integer(self, key: str, default: int | None = None, *, extension: str | None = None) -> int | None:
        """Return an integer above zero."""
        value = self.integer(key, extension=extension)
        return value if value is not None and value > 0 else default

    def text(self, key: str, default: str | None = None, *, extension: str | None = None) -> str | None:
        """Return text; numbers are written out."""
        value = self.get(key, extension=extension)
        return default if value is None else str(value)

    def presence(self, key: str, default: object = None, *, extension: str | None = None) -> object:
        """Return a value that is not blank."""
        value = presence(self.get(key, extension=extension))
        return default if value is None else value
