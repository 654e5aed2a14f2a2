"""Filters like those of RisuAI's Jinja library: on JavaScript's texts, and with lists as results."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from jinja2 import pass_context

from tavernkit._text.js_values import js_lower, js_upper, trim, utf16_length

_WORD_START = re.compile(r"\b\w", re.ASCII)


def has_length(value: object) -> bool:
    """True if a value has the attribute ``length``."""
    return isinstance(value, (str, list, tuple))


def length(value: Any) -> int:
    """How long a value is; texts as JavaScript counts them."""
    return utf16_length(value) if isinstance(value, str) else len(value)


def _trim(value: object, characters: str | None = None) -> str:
    return trim(str(value)) if characters is None else str(value).strip(characters)


def _upper(value: object) -> str:
    return js_upper(str(value))


def _lower(value: object) -> str:
    return js_lower(str(value))


def _title(value: object) -> str:
    """Begin every word with a capital; the other letters stay as they are."""
    return _WORD_START.sub(lambda found: js_upper(found.group()), str(value))


def _capitalize(value: object) -> str:
    text = str(value)
    return js_upper(text[:1]) + text[1:]


def _reverse(value: Any) -> Any:
    return value[::-1] if isinstance(value, str) else list(reversed(value))


def _items(value: Mapping[str, Any]) -> list[Any]:
    return list(value.items())


def listed(pick: Callable[..., Any]) -> Callable[..., list[Any]]:
    """Return a Jinja filter that selects items, with a list as its result."""

    @pass_context
    def picked(context: Any, *arguments: Any, **named: Any) -> list[Any]:
        return list(pick(context, *arguments, **named))

    return picked


PICKING_FILTERS = ("map", "select", "reject", "selectattr", "rejectattr")
"""Jinja's filters that select items."""

JS_FILTERS: Mapping[str, Callable[..., Any]] = {
    "trim": _trim,
    "upper": _upper,
    "lower": _lower,
    "title": _title,
    "capitalize": _capitalize,
    "length": length,
    "reverse": _reverse,
    "items": _items,
}
"""Our own filters by name."""
