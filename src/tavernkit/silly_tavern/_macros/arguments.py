"""Checks of a call's arguments, and the text that a handler's result becomes."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, time

from tavernkit._text.js_values import UNDEFINED, json_stringify, to_number, to_string, trim, trim_start
from tavernkit._text.traced import join
from tavernkit._values import is_mapping, is_sequence
from tavernkit.silly_tavern._macros.registry import MacroDefinition

_INTEGER = re.compile(r"-?[0-9]+\Z")
_BOOLEANS = frozenset(("true", "false", "on", "off", "1", "0"))

_CHECKS: dict[str, Callable[[str], bool]] = {
    "string": lambda _text: True,
    "integer": lambda text: _INTEGER.match(text) is not None,
    "number": lambda text: math.isfinite(to_number(text)),
    "boolean": lambda text: text.lower() in _BOOLEANS,
}


def arity_problem(definition: MacroDefinition, count: int) -> str | None:
    """Return what is wrong with the number of arguments, if anything."""
    if definition.accepts(count):
        return None
    return f"takes {definition.arity}, {count or 'none'} given"


def type_problem(definition: MacroDefinition, args: Sequence[str]) -> str | None:
    """Return what is wrong with the types of the arguments, if anything."""
    if not definition.typed:
        return None
    for spec, text in zip(definition.args, args, strict=False):
        if not any(_CHECKS[kind](trim(text)) for kind in spec.types):
            return f"argument {spec.name!r} must be {' or '.join(spec.types)}, not {trim(text)!r:.80}"
    return None


def to_text(value: object) -> str:
    """Convert a handler's result to text: None is empty, dates are ISO 8601 in UTC, objects and lists compact JSON."""
    if isinstance(value, str):
        return value
    if value is None or value is UNDEFINED:
        return ""
    if isinstance(value, date):
        moment = value if isinstance(value, datetime) else datetime.combine(value, time(), UTC)
        return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if is_mapping(value) or is_sequence(value):
        return json_stringify(value)
    return to_string(value) if isinstance(value, (bool, int, float)) else str(value)


_FALSE = frozenset(("false", "off", "0"))


def dedent(text: str) -> str:
    """Remove the indentation of the first non-blank line from all lines, and trim the result."""
    if "\n" not in text:
        return trim(text)
    lines = text.split("\n")
    margin = next((_indentation(line) for line in lines if trim(line)), 0)
    if not margin:
        return trim(text)
    moved = [line[margin:] if _indentation(line) >= margin else trim_start(line) for line in lines]
    return trim(join("\n", moved))


def is_falsy(text: str) -> bool:
    """Return True if a condition's text is falsy."""
    return not text or trim(text).lower() in _FALSE


def _indentation(line: str) -> int:
    return len(line) - len(line.lstrip(" \t"))
