"""JavaScript's conversions and comparisons between values.

Values are JSON in Python's types: ``None`` is ``null``, ``int`` and ``float`` are numbers, mappings are objects, lists
and tuples are arrays. ``UNDEFINED`` is accepted everywhere.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from json.encoder import encode_basestring
from typing import Final, TypeVar

from tavernkit._text.js_values.numbers import MAX_SAFE_INTEGER, as_float, number_to_string, string_to_number
from tavernkit._text.js_values.strings import JSSyntaxError, compare_strings, join_surrogates
from tavernkit._values import Json, is_mapping, is_sequence
from tavernkit.errors import ConfigError


class Undefined(Enum):
    """The type of ``UNDEFINED``."""

    UNDEFINED = "undefined"

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "UNDEFINED"


UNDEFINED: Final = Undefined.UNDEFINED
"""JavaScript's ``undefined``."""


_MAX_DEPTH = 200
_EXACT = 2**53
"""Smaller numbers are the same in JavaScript; greater ones may be equal there and not here."""


def truthy(value: object) -> bool:
    """Return ``Boolean(value)``: empty arrays and objects are true."""
    if value is None or value is UNDEFINED or value is False:
        return False
    if isinstance(value, (int, float)):
        return value != 0 and value == value
    return value != "" if isinstance(value, str) else True


def to_string(value: object) -> str:
    """Write a value as text (``String(value)``)."""
    if isinstance(value, str):
        return value
    if value is None:
        return "null"
    if value is UNDEFINED:
        return "undefined"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return number_to_string(value)
    if is_sequence(value):
        return join(value)
    return "[object Object]"


def join(items: Sequence[object], separator: str = ",", *, _depth: int = 0) -> str:
    """Join the items of an array (``Array#join``): ``null`` and ``undefined`` are empty, inner arrays use commas."""
    if _depth > _MAX_DEPTH:
        return ""

    def text(item: object) -> str:
        if item is None or item is UNDEFINED:
            return ""
        return join(item, _depth=_depth + 1) if is_sequence(item) else to_string(item)

    return separator.join(text(item) for item in items)


def to_number(value: object) -> float:
    """Convert a value to a number (``Number(value)``)."""
    if isinstance(value, str):
        return string_to_number(value)
    if isinstance(value, (int, float)):
        return as_float(value)
    if value is None:
        return 0.0
    return string_to_number(join(value)) if is_sequence(value) else math.nan


def type_of(value: object) -> str:
    """Name the type of a value (``typeof``)."""
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, (int, float)):
        return "number"
    if isinstance(value, str):
        return "string"
    return "undefined" if value is UNDEFINED else "object"


def strict_equals(left: object, right: object) -> bool:
    """Compare with ``===``: no conversion, arrays and objects by identity."""
    if type(left) is str and type(right) is str:
        return left == right
    if type(left) is int and type(right) is int and -_EXACT < left < _EXACT:
        return left == right
    kind = type_of(left)
    if kind != type_of(right):
        return False
    if kind == "number":
        return to_number(left) == to_number(right)
    return left is right if kind == "object" else left == right


def loose_equals(left: object, right: object) -> bool:
    """Compare with ``==``: numbers, text and booleans are compared as numbers, arrays and objects as text."""
    if left is None or left is UNDEFINED or right is None or right is UNDEFINED:
        return (left is None or left is UNDEFINED) and (right is None or right is UNDEFINED)
    left_kind, right_kind = type_of(left), type_of(right)
    if left_kind == right_kind:
        return strict_equals(left, right)
    if left_kind == "boolean":
        return loose_equals(to_number(left), right)
    if right_kind == "boolean":
        return loose_equals(left, to_number(right))
    if left_kind == "object":
        return loose_equals(to_string(left), right)
    if right_kind == "object":
        return loose_equals(left, to_string(right))
    return to_number(left) == to_number(right)


def less_than(left: object, right: object) -> bool:
    """Compare with ``<``: two texts by UTF-16 code units, anything else as numbers (NaN is never less)."""
    left, right = _primitive(left), _primitive(right)
    if isinstance(left, str) and isinstance(right, str):
        return compare_strings(left, right) < 0
    return to_number(left) < to_number(right)


def less_or_equal(left: object, right: object) -> bool:
    """Compare with ``<=``."""
    left, right = _primitive(left), _primitive(right)
    if isinstance(left, str) and isinstance(right, str):
        return compare_strings(left, right) <= 0
    return to_number(left) <= to_number(right)


def add(left: object, right: object) -> str | float:
    """Add with ``+``: if either side is text (or becomes text), both are joined as text."""
    left, right = _primitive(left), _primitive(right)
    if isinstance(left, str) or isinstance(right, str):
        return join_surrogates(to_string(left) + to_string(right))
    return to_number(left) + to_number(right)


def _primitive(value: object) -> object:
    return to_string(value) if type_of(value) == "object" and value is not None else value


MAX_INDENT = 10
"""The widest indentation that ``JSON.stringify`` accepts."""

MAX_DEPTH = 400
"""How deeply JSON may be nested."""

_SURROGATE = re.compile("[\ud800-\udfff]")
_INDEX_LIMIT = 2**32 - 1


def is_index_key(key: str) -> bool:
    """Return True if JavaScript treats a key as an array index, which comes before all other keys of an object."""
    return (
        key.isascii()
        and key.isdigit()
        and (key == "0" or key[0] != "0")
        and len(key) <= 10
        and (int(key) < _INDEX_LIMIT)
    )


def own_keys(keys: Iterable[str]) -> list[str]:
    """Return keys in JavaScript's order: indexes ascending, then the rest in insertion order."""
    listed = list(keys)
    if listed and listed[0] == "0" and listed == [*map(str, range(len(listed)))]:  # true for most files
        return listed
    indexes = [key for key in listed if is_index_key(key)]
    if not indexes:
        return listed
    return sorted(indexes, key=int) + [key for key in listed if not is_index_key(key)]


def quote_json(text: str) -> str:
    """Write a text as a JSON string; lone surrogates are escaped, other characters only if necessary."""
    quoted = encode_basestring(join_surrogates(text))  # Python escapes the rest as JavaScript does
    return quoted if quoted.isascii() else _SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", quoted)


def json_stringify(value: object, indent: int | str = 0) -> str:
    """Write a value as JSON (``JSON.stringify(value, null, indent)``).

    ``undefined`` is left out of objects and is ``null`` in arrays; at the top level it gives the text ``undefined``.
    """
    gap = " " * min(indent, MAX_INDENT) if isinstance(indent, int) else indent[:MAX_INDENT]
    if value is UNDEFINED:
        return "undefined"
    pieces: list[str] = []
    _write(value, gap, f"\n{gap}" if gap else "", pieces, 0)
    return "".join(pieces)


def _write(value: object, gap: str, line: str, pieces: list[str], depth: int) -> None:
    # All levels write to one list: otherwise each level would copy everything below it.
    plain = _plain(value)
    if plain is not None:
        pieces.append(plain)
        return
    if depth > MAX_DEPTH:
        raise ConfigError(f"json_stringify takes values of at most {MAX_DEPTH} levels")
    if is_mapping(value):
        opening, closing, colon = "{", "}", ": " if gap else ":"
        members = [key for key in own_keys(value) if value[key] is not UNDEFINED]
        items = [(quote_json(key) + colon, value[key]) for key in members]
    elif is_sequence(value):
        opening, closing = "[", "]"
        items = [("", item) for item in value]
    else:
        raise ConfigError(f"json_stringify takes JSON values, not {type(value).__name__}")
    before = opening + line
    for name, item in items:
        pieces.append(before + name)
        _write(item, gap, line + gap, pieces, depth + 1)
        before = "," + line
    pieces.append(line.removesuffix(gap) + closing if items else opening + closing)


def _plain(value: object) -> str | None:
    if isinstance(value, str):
        return quote_json(value)
    if value is None or value is UNDEFINED:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        text = number_to_string(value)
        return "null" if text.endswith(("NaN", "Infinity")) else text
    return None


def json_parse(text: str) -> Json:
    """Read JSON exactly as strictly as ``JSON.parse``; raises ``JSSyntaxError``.

    Integers that a double cannot hold exactly become floats, ``-0`` stays negative, index keys come first.
    """
    try:
        parsed: Json = json.loads(
            text,
            parse_int=_read_int,
            parse_constant=_refuse_constant,
            object_pairs_hook=_read_object,
        )
    except RecursionError:
        raise JSSyntaxError("the JSON text is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise JSSyntaxError(str(error)) from None
    return parsed


def _read_int(digits: str) -> int | float:
    if digits == "-0":
        return -0.0
    if len(digits) > 17:
        return float(digits)
    value = int(digits)
    return value if -MAX_SAFE_INTEGER <= value <= MAX_SAFE_INTEGER else float(digits)


def _refuse_constant(name: str) -> Json:
    raise JSSyntaxError(f"{name} is not JSON")


def _read_object(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    members = dict(pairs)
    ordered = own_keys(members)
    return {key: members[key] for key in ordered}


T = TypeVar("T")


def sort_by(items: Sequence[T], compare: Callable[[T, T], float]) -> list[T]:
    """Sort; ``compare`` is asked for the same pairs in the same order as in V8 while a list has fewer than 64 items.

    So a list "shuffled" by a random comparer comes out as in a browser, and on every version of Python alike. An answer
    that is not a number counts as 0.
    """
    run = _first_run(items, compare)
    for item in items[len(run) :]:
        low, high = 0, len(run)
        while low < high:
            middle = (low + high) // 2
            if compare(item, run[middle]) < 0:
                high = middle
            else:
                low = middle + 1
        run.insert(low, item)
    return run


def _first_run(items: Sequence[T], compare: Callable[[T, T], float]) -> list[T]:
    """Return the leading items that are already in order, or in strictly reverse order and then reversed."""
    if len(items) < 2:
        return list(items)
    descending = compare(items[1], items[0]) < 0
    end = 2
    while end < len(items) and (compare(items[end], items[end - 1]) < 0) == descending:
        end += 1
    return list(reversed(items[:end])) if descending else list(items[:end])
