"""Reads the fields of an entry as JavaScript would, whatever their type in the file."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any, Generic, Protocol, TypeVar, overload

from tavernkit._dataclass import dataclass
from tavernkit._text.js_values import UNDEFINED, Undefined, loose_equals, to_number, to_string, truthy
from tavernkit._values import SCALARS, Json, JsonObject, is_mapping, is_sequence
from tavernkit.silly_tavern._world_info.limits import MAX_JSON_DEPTH
from tavernkit.silly_tavern.errors import LoreParseError

T = TypeVar("T")


class HasRaw(Protocol):
    """An object with fields: ``raw`` is its JSON object."""

    raw: JsonObject


class Field(Generic[T]):
    """A field of the JSON object, read on first use and converted for the scan."""

    def __init__(self, name: str, read: Callable[[Json | Undefined], T]) -> None:
        self._name = name
        self._read = read
        self._attribute = name

    def __set_name__(self, owner: type, name: str) -> None:
        self._attribute = name

    @overload
    def __get__(self, entry: None, owner: type[Any]) -> Field[T]: ...
    @overload
    def __get__(self, entry: HasRaw, owner: type[Any]) -> T: ...
    def __get__(self, entry: HasRaw | None, owner: type[Any]) -> Field[T] | T:
        """Read the field once; from then on, the value is an attribute of the object itself."""
        if entry is None:
            return self
        value = self._read(entry.raw.get(self._name, UNDEFINED))
        entry.__dict__[self._attribute] = value
        return value


def texts(value: object) -> tuple[str, ...]:
    """Read a list of texts without other items; empty for anything but a list."""
    return tuple(item for item in value if isinstance(item, str)) if is_sequence(value) else ()


def names(value: object) -> tuple[str, ...]:
    """Read a list of names; a single text counts as a list."""
    if isinstance(value, str):
        return (value,) if value else ()
    return tuple(to_string(item) for item in value) if is_sequence(value) else ()


def text(value: object) -> str:
    """Read text; anything else is empty."""
    return value if isinstance(value, str) else ""


def property_name(value: object) -> str:
    """Read a property name: text or a number other than zero."""
    return to_string(value) if truthy(value) else ""


def number(value: object) -> float:
    """Read a number for arithmetic: missing is NaN, null is 0."""
    return math.nan if value is UNDEFINED else to_number(value)


def optional_number(value: object) -> float | None:
    """Read a number; None if it is missing or null."""
    return None if value is UNDEFINED or value is None else to_number(value)


def optional_flag(value: object) -> bool | None:
    """Read a switch; None if it is missing or null: then the global setting is used."""
    return None if value is UNDEFINED or value is None else truthy(value)


def is_true(value: object) -> bool:
    """Read a switch that is compared with ``== true``: true, 1 and ``"1"`` are on."""
    return value is True or (value is not False and loose_equals(value, True))


def verbatim(value: Json | Undefined) -> Json | Undefined:
    """Return the value unchanged."""
    return value


def level(value: Json | Undefined) -> Json | Undefined:
    """Read a level of delayed recursion: true is the first."""
    return 1 if value is True else value


@dataclass(frozen=True, slots=True)
class CharacterFilter:
    """Which characters (by file name) and tags an entry is for, or is not for."""

    exclude: bool = False
    names: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()


def triggers(value: object) -> tuple[str, ...]:
    """Read the generation types of an entry; anything but a list means all."""
    return names(value) if is_sequence(value) else ()


def character_filter(value: object) -> CharacterFilter:
    """Read the filter; anything but an object filters nothing."""
    if not is_mapping(value):
        return CharacterFilter()
    return CharacterFilter(
        exclude=truthy(value.get("isExclude", UNDEFINED)),
        names=names(value.get("names")),
        tags=names(value.get("tags")),
    )


def check_depth(value: object) -> None:
    """Refuse JSON that is nested deeper than any real book, before recursion overflows."""
    level: list[object] = [value]
    for _ in range(MAX_JSON_DEPTH):
        inner = chain.from_iterable(map(_contained, level))
        # Nearly all values are scalars, and books have millions of them.
        level = [item for item in inner if type(item) not in SCALARS and (is_mapping(item) or is_sequence(item))]
        if not level:
            return
    raise LoreParseError(f"the JSON is nested deeper than {MAX_JSON_DEPTH} levels")


def _contained(value: object) -> Iterable[object]:
    return value.values() if is_mapping(value) else value if is_sequence(value) else ()


ACTIVATE = "@@activate"
"""Activates the entry without a key."""

DONT_ACTIVATE = "@@dont_activate"
"""Keeps the entry from being activated."""

KNOWN = (ACTIVATE, DONT_ACTIVATE)


def parse_decorators(content: str) -> tuple[tuple[str, ...], str]:
    """Split decorators from the text: known ones, as written, and the remaining content.

    A line ``@@@name`` is the fallback of the line before it: it counts only if that one is unknown. Content with only
    decorators stays unchanged.
    """
    if not content.startswith("@@"):
        return (), content
    decorators: list[str] = []
    fallback = False
    lines = content.split("\n")
    for number, line in enumerate(lines):
        if not line.startswith("@@"):
            return tuple(decorators), "\n".join(lines[number:])
        if line.startswith("@@@") and not fallback:
            continue
        name = line[1:] if line.startswith("@@@") else line
        known = name.startswith(KNOWN)
        if known:
            decorators.append(name)
        fallback = not known
    return tuple(decorators), content
