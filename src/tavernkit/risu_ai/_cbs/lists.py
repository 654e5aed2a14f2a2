"""Lists and objects in CBS texts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

from tavernkit._text.js_values import JSSyntaxError, json_parse, json_stringify, to_string
from tavernkit._values import Json, is_list
from tavernkit.errors import ConfigError
from tavernkit.risu_ai._cbs.limits import CACHED_LISTS, FunctionFailure

SEPARATOR = "§"
"""Separates the items of a list that is not JSON."""

_CACHED_LENGTH = 1000


def parse_array(text: str) -> list[Json]:
    """Read a list: a JSON array with its types, any other text split at ``§``. Its items must not be changed."""
    if text[:1] != "[" and text.lstrip()[:1] != "[":
        return [*text.split(SEPARATOR)]
    return [*(_parse_short_array(text) if len(text) <= _CACHED_LENGTH and type(text) is str else _parse_array(text))]


def _parse_array(text: str) -> Sequence[Json]:
    try:
        value = json_parse(text)
    except JSSyntaxError:
        return text.split(SEPARATOR)
    return value if is_list(value) else text.split(SEPARATOR)


_parse_short_array = lru_cache(maxsize=CACHED_LISTS)(_parse_array)


def make_array(items: Iterable[object]) -> str:
    """Write a list as JSON; ``::`` in items is written in a way that does not separate arguments.

    RisuAI escapes its escapes again, so that reading the list gives twelve characters instead of ``::``.
    """
    return stringify([item.replace("::", "\\u003A\\u003A") if isinstance(item, str) else item for item in items])


def parse_dict(text: str | None) -> Json:
    """Read JSON of any type; invalid JSON is an empty object."""
    if text is None:
        return {}
    try:
        return json_parse(text)
    except JSSyntaxError:
        return {}


def stringify(value: object) -> str:
    """Write compact JSON."""
    try:
        return json_stringify(value)
    except ConfigError:
        raise FunctionFailure("the value is nested too deeply") from None


def item_text(value: Json) -> str:
    """Print an element: text unchanged, lists and objects as JSON, None as ``null``."""
    if isinstance(value, str):
        return value
    return stringify(value) if isinstance(value, (list, dict)) else to_string(value)
