"""Reads cards, books and entries into typed values, and writes them back over the JSON they came from.

A model keeps the object it was read from. Writing starts from that object and sets only the fields whose value has
changed, so unknown fields, odd types and the order of keys survive.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from tavernkit._dataclass import dataclass
from tavernkit._text.js_values import number_to_string
from tavernkit._text.json_pointer import escape
from tavernkit._text.json_reader import json_object
from tavernkit._values import (
    EMPTY_OBJECT,
    FrozenObject,
    Json,
    JsonObject,
    freeze_object,
    is_mapping,
    is_sequence,
    thaw,
    thaw_object,
)
from tavernkit.errors import Warn

T = TypeVar("T")

_NO_TEXTS: Mapping[str, str] = MappingProxyType({})

Reader = Callable[[object, str, Warn], T]
"""Reads a JSON value. Arguments: the value, its JSON pointer, and where to warn."""

TEXT_FIELDS = (
    "name",
    "description",
    "personality",
    "scenario",
    "first_mes",
    "mes_example",
    "creator_notes",
    "system_prompt",
    "post_history_instructions",
    "creator",
    "character_version",
)
"""Fields of a card that every version has as a text."""


@dataclass(frozen=True, slots=True)
class Field(Generic[T]):
    """One field of a model: its key, its default, and how it is read and written."""

    key: str
    default: T
    read: Reader[T]
    write: Callable[[T], Json] = thaw
    aliases: tuple[str, ...] = ()
    """Other keys for it in old files."""

    def key_in(self, source: Mapping[str, object]) -> str:
        """The key that a file uses for this field."""
        if self.key not in source:
            for alias in self.aliases:
                if alias in source:
                    return alias
        return self.key


class Fields:
    """The fields of a model, in order."""

    def __init__(self, *fields: Field[Any]) -> None:
        self._fields = fields
        self._known = {key: field for field in fields for key in (*field.aliases, field.key)}
        self._defaults: dict[str, Any] = {field.key: field.default for field in fields}

    def __iter__(self) -> Iterator[Field[Any]]:
        return iter(self._fields)

    def read(self, source: Mapping[str, object], where: str, warn: Warn) -> dict[str, Any]:
        """Read the fields of an object: keyword arguments for the model."""
        values = self._defaults.copy()
        for key, value in source.items():
            field = self._known.get(key)
            if field is not None and (key == field.key or key == field.key_in(source)):
                values[field.key] = field.read(value, f"{where}/{key}", warn)
        return values

    def make(self, model: type[T], source: Mapping[str, object], where: str, warn: Warn, **others: object) -> T:
        """Read an object into a model, with additional fields.

        Readers guarantee the types, so they are not checked again.
        """
        made = model(**self.read(source, where, warn), **others)
        mark_pristine(made)
        return made

    def write(self, model: object, original: object, source: Mapping[str, object]) -> JsonObject:
        """Write a model's fields over the object it came from; fields equal to ``original`` stay as they were."""
        written = thaw_object(source)
        for field in self._fields:
            value: object = getattr(model, field.key)
            if value != getattr(original, field.key):
                written[field.key_in(source)] = field.write(value)
        return written


def empty_object() -> FrozenObject:
    """Return the empty object, for fields of models."""
    return EMPTY_OBJECT


def no_texts() -> Mapping[str, str]:
    """Return an empty object of texts, for fields of models."""
    return _NO_TEXTS


def frozen(data: Mapping[str, object]) -> FrozenObject:
    """Freeze an object, unless it is part of a card that was frozen as a whole."""
    if isinstance(data, MappingProxyType):
        return data  # pyright: ignore[reportReturnType]  # made by `freeze`
    return freeze_object(json_object(data, "data"))


def mark_pristine(model: object) -> None:
    """Mark a model that was just read as unchanged; changed copies do not have the mark."""
    object.__setattr__(model, "pristine", True)


def ignore(message: str) -> None:
    """Ignore a warning that was already reported."""
    del message


def kind(value: object) -> str:
    """Name the JSON type of a value, for messages."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, (int, float)):
        return "a number"
    if isinstance(value, str):
        return "a string"
    if is_mapping(value):
        return "an object"
    return "a list" if is_sequence(value) else type(value).__name__


def read_text(value: object, where: str, warn: Warn) -> str:
    """Read a text; null becomes empty, a number becomes text."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        warn(f"{where} is a number where a string is expected")
        return number_to_string(value)
    warn(f"{where} is {kind(value)} where a string is expected; it was left out")
    return ""


def read_optional_text(value: object, where: str, warn: Warn) -> str | None:
    """Read a text that may be absent."""
    return None if value is None else read_text(value, where, warn)


def read_texts(value: object, where: str, warn: Warn) -> tuple[str, ...]:
    """Read a list of strings; a single text is a list of one."""
    if isinstance(value, str):
        warn(f"{where} is a string where a list of strings is expected")
        return (value,) if value else ()
    if not is_sequence(value):
        if value is not None:
            warn(f"{where} is {kind(value)} where a list of strings is expected; it was left out")
        return ()
    if all(type(item) is str for item in value):
        return tuple(value)  # pyright: ignore[reportReturnType]  # checked just now
    texts = (read_text(item, f"{where}/{index}", warn) for index, item in enumerate(value))
    return tuple(text for text, item in zip(texts, value, strict=True) if isinstance(item, (str, int, float)))


def read_tags(value: object, where: str, warn: Warn) -> tuple[str, ...]:
    """Read tags; a single text is split at commas, as in SillyTavern."""
    if isinstance(value, str):
        return tuple(tag for tag in (part.strip() for part in value.split(",")) if tag)
    return read_texts(value, where, warn)


def read_object(value: object, where: str, warn: Warn) -> FrozenObject:
    """Read an object with any content."""
    if is_mapping(value):
        return value  # pyright: ignore[reportReturnType]  # the card was frozen as a whole
    if value is not None:
        warn(f"{where} is {kind(value)} where an object is expected; it was left out")
    return EMPTY_OBJECT


def read_text_map(value: object, where: str, warn: Warn) -> Mapping[str, str]:
    """Read an object of texts."""
    members = read_object(value, where, warn)
    return MappingProxyType({key: read_text(item, f"{where}/{escape(key)}", warn) for key, item in members.items()})


def read_bool(value: object, where: str, warn: Warn) -> bool:
    """Read a boolean; null is false; numbers and the words true and false are accepted."""
    found = read_optional_bool(value, where, warn)
    return False if found is None else found


def read_optional_bool(value: object, where: str, warn: Warn) -> bool | None:
    """Read a boolean that may be absent."""
    if value is None or isinstance(value, bool):
        return value
    warn(f"{where} is {kind(value)} where true or false is expected")
    if isinstance(value, (int, float)):
        return value != 0
    return {"true": True, "false": False}.get(value.strip().lower()) if isinstance(value, str) else None


def read_optional_number(value: object, where: str, warn: Warn) -> int | float | None:
    """Read a number that may be absent; digits in a text are accepted."""
    if value is None:
        return None
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return value
    warn(f"{where} is {kind(value)} where a number is expected")
    return _number(value) if isinstance(value, str) else None


def read_number(value: object, where: str, warn: Warn) -> int | float:
    """Read a number; null is zero."""
    found = read_optional_number(value, where, warn)
    return 0 if found is None else found


def read_date(value: object, where: str, warn: Warn) -> int | None:
    """Read Unix seconds; digits in a text are accepted, anything else is not a date."""
    found = read_optional_number(value, where, warn)
    if isinstance(found, float) and not math.isfinite(found):
        warn(f"{where} is {found} where a date is expected; it was left out")
        return None
    return None if found is None else int(found)


def read_id(value: object, where: str, warn: Warn) -> int | float | str | None:
    """Read an identifier: a number in V2, a number or a string in V3."""
    return value if isinstance(value, str) else read_optional_number(value, where, warn)


def _number(text: str) -> int | float | None:
    text = text.strip()
    if len(text) > 40:
        return None
    for convert in (int, float):
        try:
            number = convert(text)
        except ValueError:
            continue
        if math.isfinite(number):
            return number
    return None
