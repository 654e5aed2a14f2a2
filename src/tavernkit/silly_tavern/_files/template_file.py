"""Base of SillyTavern's template files: one JSON object, read and written back without loss."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import field
from os import PathLike
from pathlib import Path
from typing import ClassVar, Self

from tavernkit._dataclass import dataclass
from tavernkit._text.json_reader import JsonReader
from tavernkit._values import EMPTY_OBJECT, FrozenObject, JsonObject, freeze_object, is_mapping, thaw, thaw_object
from tavernkit.cards._json_text import dump_json, parse_json
from tavernkit.cards._kinds import FileKind, warn_if_mistaken
from tavernkit.cards._source import FileContent, called, read_file, stem
from tavernkit.errors import FileFormatError, Warn, log_warning

MAX_TEMPLATE_BYTES = 16 * 1024 * 1024
"""A template file larger than this is not read."""

_OWN = frozenset({"name", "source"})


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateFile:
    """A template with a name. Attributes have the file's own keys; ``source`` is the file as it was read.

    The live copy of a template in ``settings.json`` has the same keys; it keeps its name under ``preset``.
    """

    kind: ClassVar[str] = "template"
    kinds: ClassVar[tuple[FileKind, ...]] = ()
    """The kinds of files that it may be."""
    error: ClassVar[type[FileFormatError]] = FileFormatError
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """The allowed values of keys; the first one replaces invalid values."""

    name: str = ""
    """What the template is called."""
    source: FrozenObject = field(default_factory=lambda: EMPTY_OBJECT)

    @classmethod
    def load(cls, source: FileContent, *, warn: Warn = log_warning, strict: bool = False) -> Self:
        """Read a file; wrong values in it are reported and replaced, or raise when ``strict``.

        Args:
            source: The file: its path or its content.
            warn: Called with each warning.
            strict: Raise an error instead of warning.
        """
        warn = cls._refuse if strict else warn
        try:
            content = read_file(source, MAX_TEMPLATE_BYTES, limit="MAX_TEMPLATE_BYTES")
            data = parse_json(content, what=called(source), warn=warn)
        except FileFormatError as error:
            raise cls.error(str(error)) from error
        warn_if_mistaken(data, f"the {cls.kind}", *cls.kinds, what=called(source), warn=warn)
        return cls.from_json(data, name=stem(source), warn=warn)

    @classmethod
    def from_json(cls, data: object, *, name: str = "", warn: Warn = log_warning) -> Self:
        """Read parsed JSON; ``name`` is used if the object has none.

        Args:
            data: The parsed file.
            name: Its name, if the object has none.
            warn: Called with each warning.
        """
        if not is_mapping(data):
            raise cls.error(f"the {cls.kind} is not a JSON object, but {type(data).__name__}")
        named = data.get(_name_key(data))
        title = named if isinstance(named, str) and named else name
        reader = JsonReader(cls.migrated(data), f"{cls.kind} {title!r}" if title else cls.kind, warn)
        values = {key: cls._read(reader, key, default) for key, default in _defaults(cls).items()}
        return cls(name=title, source=freeze_object(data), **values)  # pyright: ignore[reportArgumentType]  # read by the type of each default

    @classmethod
    def migrated(cls, data: Mapping[str, object]) -> JsonObject:
        """Return the object in the current format."""
        return {key: thaw(value) for key, value in data.items()}

    @classmethod
    def field_names(cls) -> tuple[str, ...]:
        """Return the known keys."""
        return tuple(_defaults(cls))

    def to_json(self) -> JsonObject:
        """Return the template in file format, with all changes and unknown keys."""
        if not self.source:
            return {"name": self.name, **{key: thaw(getattr(self, key)) for key in self.field_names()}}
        then = type(self).from_json(self.source, name=self.name, warn=_silent)
        changed: JsonObject = {
            key: thaw(getattr(self, key)) for key in self.field_names() if getattr(self, key) != getattr(then, key)
        }
        if self.name != then.name:
            changed[_name_key(self.source)] = self.name
        return {**self.migrated(self.source), **changed} if changed else thaw_object(self.source)

    def dumps(self) -> str:
        """Return the template as text, formatted like SillyTavern's export."""
        return dump_json(self.to_json(), indent=4)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the template to a file."""
        Path(path).write_text(self.dumps(), encoding="utf-8")

    def replace(self, **changes: object) -> Self:
        """Return a changed copy."""
        return dataclasses.replace(self, **changes)  # pyright: ignore[reportArgumentType]  # dataclass field types

    @classmethod
    def _read(cls, reader: JsonReader, key: str, default: object) -> object:
        if isinstance(default, bool):
            return reader.flag(key, default)
        if isinstance(default, int):
            return reader.integer(key, default)
        value = reader.text(key, str(default))
        allowed = cls.choices.get(key)
        if allowed is None or value in allowed:
            return value
        reader.warn(f"{reader.where}: {key} should be one of {', '.join(allowed)}, not {value!r:.60}")
        return allowed[0]

    @classmethod
    def _refuse(cls, message: str) -> None:
        raise cls.error(message)


def _defaults(cls: type[TemplateFile]) -> dict[str, object]:
    return {each.name: each.default for each in dataclasses.fields(cls) if each.name not in _OWN}


def _name_key(data: Mapping[str, object]) -> str:
    return "preset" if "preset" in data and "name" not in data else "name"


def _silent(_message: str) -> None:
    """Ignore a warning: the same data was already read with warnings."""
