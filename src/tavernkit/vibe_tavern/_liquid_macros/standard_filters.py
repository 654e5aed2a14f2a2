"""Standard filters of lists and texts that must match Liquid exactly, even for odd input."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterator
from functools import cmp_to_key
from typing import TypeGuard
from urllib.parse import unquote_to_bytes

from liquid.exceptions import FilterArgumentError

from tavernkit._values import is_mapping, is_sequence
from tavernkit.vibe_tavern._liquid_macros.values import equal, given, order, to_operand_number, to_text, to_whole_number


def join(value: object, separator: object = " ") -> str:
    """Join the elements."""
    return to_text(given(separator)).join(map(to_text, _elements(value)))


def concat(value: object, other: object) -> list[object]:
    """Join two lists."""
    if not is_sequence(other) and not isinstance(other, range):
        raise FilterArgumentError("concat filter requires an array argument", token=None)
    return [*_elements(value), *other]


def sort(value: object, key: object = None) -> list[object] | None:
    """Sort by value, or by a property; None comes last."""
    return _sort(_read(value, key))


def sort_natural(value: object, key: object = None) -> list[object] | None:
    """Sort as text, ignoring case, by value or by a property; None comes last."""
    read = _read(value, key)
    return _sort(None if read is None else [(element, _casefold(found)) for element, found in read])


def map_(value: object, key: object) -> list[object]:
    """Take one property of every element."""
    return [property_of(element, key) if _has_properties(element) else None for element in _elements(value)]


def sum_(value: object, key: object = None) -> int | float:
    """Add up numbers, or a property of every element."""
    total: int | float = 0
    for element in _elements(value):
        number = to_operand_number(element if given(key) is None else property_of(element, key))
        total += float(number) if isinstance(number, str) else number if isinstance(number, (int, float)) else 0
    return total


def where(value: object, key: object, target: object = None) -> list[object] | None:
    """Keep the elements whose property has a value, or exists."""
    elements = _comparable(value)
    return None if elements is None else [element for element in elements if _fits(element, key, target)]


def reject(value: object, key: object, target: object = None) -> list[object] | None:
    """Leave out the elements whose property has a value, or exists."""
    elements = _comparable(value)
    return None if elements is None else [element for element in elements if not _fits(element, key, target)]


def find(value: object, key: object, target: object = None) -> object:
    """Return the first element whose property has a value, or exists."""
    return next((element for _, element in _find_all(value, key, target)), None)


def find_index(value: object, key: object, target: object = None) -> int | None:
    """Return the place of the first element whose property has a value, or exists."""
    return next((place for place, _ in _find_all(value, key, target)), None)


def has(value: object, key: object, target: object = None) -> bool | None:
    """Return True if an element's property has a value, or exists."""
    return None if _comparable(value) is None else any(True for _ in _find_all(value, key, target))


def compact(value: object, key: object = None) -> list[object] | None:
    """Remove None, or the elements whose property is None."""
    read = _read(value, key)
    return None if read is None else [element for element, found in read if found is not None]


def uniq(value: object, key: object = None) -> list[object] | None:
    """Keep the first of equal elements, or of those with equal properties."""
    read = _read(value, key)
    if read is None:
        return None
    first: dict[str, object] = {}
    for element, found in read:
        first.setdefault(_identity(found), element)
    return list(first.values())


def property_of(element: object, key: object) -> object:
    """Read a property of an element; a text has those that occur in it."""
    name = to_text(given(key))
    if is_mapping(element):
        return element.get(name)
    if isinstance(element, str):
        return name if name in element else None
    raise FilterArgumentError(f"cannot select the property '{name}'", token=None)


def _has_properties(element: object) -> bool:
    """Return True for values that may have properties; an integer may, but has none."""
    return element is not None and not isinstance(element, (bool, float))


def _comparable(value: object) -> list[object] | None:
    elements = _elements(value)
    return elements if all(map(_has_properties, elements)) else None


def _find_all(value: object, key: object, target: object) -> Iterator[tuple[int, object]]:
    places = enumerate(_comparable(value) or ())
    return ((place, element) for place, element in places if _fits(element, key, target))


def _fits(element: object, key: object, target: object) -> bool:
    read, wanted = property_of(element, key), given(target)
    return read is not None and read is not False if wanted is None else equal(read, wanted)


def _sort(read: list[tuple[object, object]] | None) -> list[object] | None:
    if read is None:
        return None
    there = [(element, found) for element, found in read if found is not None]
    texts = [(found, element) for element, found in there if isinstance(found, str)]
    numbers = [(found, element) for element, found in there if _is_ordered_number(found)]
    # Python's own sort is ten times as fast.
    if len(texts) == len(there):
        ordered = [element for _, element in sorted(texts, key=lambda pair: pair[0])]
    elif len(numbers) == len(there):
        ordered = [element for _, element in sorted(numbers, key=lambda pair: pair[0])]
    else:
        by_order = cmp_to_key(_order)
        ordered = [element for element, _ in sorted(there, key=lambda pair: by_order(pair[1]))]
    return [*ordered, *(element for element, found in read if found is None)]


def _is_ordered_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value == value


def _read(value: object, key: object) -> list[tuple[object, object]] | None:
    """Return each element with its sort value: itself or a property; None if an element has no properties."""
    if given(key) is None:
        return [(element, element) for element in _elements(value)]
    elements = _comparable(value)
    return None if elements is None else [(element, property_of(element, key)) for element in elements]


def _identity(value: object) -> str:
    """Return a key that is the same for equal values, but differs between numbers and texts."""
    return json.dumps(value, sort_keys=True, default=repr)


def _order(left: object, right: object) -> int:
    found = order(left, right)
    if found is None and left != right:
        raise FilterArgumentError("cannot sort values of incompatible types", token=None)
    return found or 0


def _casefold(value: object) -> object:
    return None if value is None else to_text(value).lower()


def _elements(value: object) -> list[object]:
    """Return the elements of a list, flattened; anything else is one element."""
    value = given(value)
    if value is None:
        return []
    if isinstance(value, range):
        return list(value)
    if not is_sequence(value):
        return [value]
    found: list[object] = []
    for element in value:
        found += _elements(element) if is_sequence(element) else [element]
    return found


_BLANKS = re.compile(r"[\0\t\n\v\f\r ]+")
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;"}
_SPECIAL = re.compile(r"[&<>\"']")
_SPECIAL_ONCE = re.compile(r"[<>\"']|&(?!(?:[a-zA-Z]+|#[0-9]+);)")
_HTML_BLOCKS = (("<script", "</script>"), ("<!--", "-->"), ("<style", "</style>"), ("<", ">"))
_INTEGER_SIZE = 8
"""The result of ``size`` for every whole number: its bytes."""


def truncate(value: object, length: object = 50, ellipsis: object = "...") -> str:
    """Cut a text to this many characters, the ellipsis counted."""
    text, end, most = _text(value), _text(ellipsis), to_whole_number(length)
    return text[: max(most - len(end), 0)] + end if len(text) > most else text


def truncatewords(value: object, count: object = 15, ellipsis: object = "...") -> str:
    """Cut a text to this many words."""
    text, most = _text(value), max(to_whole_number(count), 1)
    words = _BLANKS.split(text.lstrip("\0\t\n\v\f\r "), maxsplit=most)
    return text if len(words) <= most else " ".join(words[:most]) + _text(ellipsis)


def escape(value: object) -> str:
    """Escape HTML."""
    return _SPECIAL.sub(lambda match: _ENTITIES[match.group()], _text(value))


def escape_once(value: object) -> str:
    """Escape HTML, except existing entities."""
    return _SPECIAL_ONCE.sub(lambda match: _ENTITIES[match.group()], _text(value))


def strip_html(value: object) -> str:
    """Remove scripts, styles, comments and tags."""
    text = _text(value)
    for opening, closing in _HTML_BLOCKS:
        text = _without(text, opening, closing)
    return text


def url_decode(value: object) -> str:
    """Decode percent escapes, and plus signs as spaces."""
    try:
        return unquote_to_bytes(_text(value).replace("+", " ")).decode()
    except UnicodeDecodeError:
        raise FilterArgumentError("invalid byte sequence in UTF-8", token=None) from None


def base64_decode(value: object) -> str:
    """Read Base64."""
    try:
        return base64.b64decode(_text(value), validate=True).decode()
    except (binascii.Error, ValueError):
        raise FilterArgumentError("invalid base64 provided to base64_decode", token=None) from None


def size(value: object) -> int:
    """Count characters, elements or keys."""
    value = given(value)
    if isinstance(value, (str, range)) or is_sequence(value) or is_mapping(value):
        return len(value)
    return _INTEGER_SIZE if isinstance(value, int) and not isinstance(value, bool) else 0


def slice_(value: object, start: object, length: object = None) -> object:
    """Return this many characters or elements, one by default; a negative start counts from the end."""
    first, count = to_whole_number(start), 1 if given(length) is None else to_whole_number(length)
    whole = list(value) if is_sequence(value) else _text(value)
    first += len(whole) if first < 0 else 0
    return whole[:0] if first < 0 or count < 0 else whole[first : first + count]


def _without(text: str, opening: str, closing: str) -> str:
    kept: list[str] = []
    position = 0
    while (start := text.find(opening, position)) >= 0 and (end := text.find(closing, start + len(opening))) >= 0:
        kept.append(text[position:start])
        position = end + len(closing)
    return "".join((*kept, text[position:]))


def _text(value: object) -> str:
    return to_text(given(value))
