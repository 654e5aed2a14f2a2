"""One combination of a grid: small values that are sent to the worker that builds it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Final, NamedTuple, Protocol, Self

from tavernkit import __version__
from tavernkit._values import (
    EMPTY_OBJECT,
    FrozenObject,
    JsonObject,
    freeze_object,
    is_mapping,
    is_sequence,
    thaw_object,
)
from tavernkit.batching._sources import suggestion
from tavernkit.errors import ConfigError
from tavernkit.prompt._inputs import GenerationType, OnOverflow

SCHEMA_VERSION: Final = 1
"""Increases when records change incompatibly. See ``docs/guides/batch.md``."""
DEFAULT_NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)
"""The time that macros see unless the grid sets another, so that the same grid gives the same prompts on any day."""
UNREADABLE: Final = "unreadable"


def digest(value: object) -> bytes:
    """Hash a JSON value; equal values have equal hashes, whatever the order of their keys."""
    if isinstance(value, str):
        text = value
    else:
        text = "\0" + json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


_VERSION: Final = digest([SCHEMA_VERSION, __version__])


def task_key(salt: bytes, digests: Sequence[bytes]) -> str:
    """Return the key of a record: a hash of everything that goes into it, and of TavernKit's version."""
    return blake2b(b"".join((_VERSION, salt, *digests)), digest_size=16).hexdigest()


@dataclass(frozen=True)
class FileRef:
    """A file of a grid: its name there, and a hash of its content when the run began."""

    name: str
    hash: str
    """BLAKE2 of the content in hex, or why it cannot be read: ``unreadable: …``."""

    @classmethod
    def read(cls, folder: Path, name: str) -> Self:
        """Hash a file; if it cannot be read, the records that need it say so."""
        try:
            with (folder / name).open("rb") as stream:
                hashed = blake2b(digest_size=16)
                while block := stream.read(1 << 20):
                    hashed.update(block)
        except (OSError, ValueError) as error:
            return cls(name, f"{UNREADABLE}: {error.strerror if isinstance(error, OSError) else error}")
        return cls(name, hashed.hexdigest())

    @cached_property
    def key(self) -> bytes:
        """What the file adds to the keys of records: builds see its name and its content."""
        return digest([self.name, self.hash])

    def content(self, folder: Path) -> bytes:
        """Read the file.

        Raises:
            OSError: It cannot be read.
            ConfigError: The file has changed since it was hashed.
        """
        data = (folder / self.name).read_bytes()
        if blake2b(data, digest_size=16).hexdigest() != self.hash:
            raise ConfigError(f"{self.name} has changed since the run began: run again with --resume")
        return data


@dataclass(frozen=True, slots=True)
class Persona:
    """Who talks to the character."""

    name: str = ""
    """If empty, the user of the chat file, or ``User``."""
    description: str = ""

    @classmethod
    def read(cls, value: object) -> Self:
        """Read a name, or an object with a name and a description."""
        if isinstance(value, str):
            return cls(value)
        if not is_mapping(value):
            raise ConfigError(f"personas must be names or {{name = …, description = …}}, not {value!r}")
        for key in value:
            if key not in ("name", "description"):
                raise ConfigError(f"a persona has no {key!r}{suggestion(key, ('name', 'description'))}")
        return cls(str(value.get("name", "")), str(value.get("description", "")))

    def to_dict(self) -> JsonObject:
        """Return the persona as JSON."""
        return {"name": self.name, "description": self.description}


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildOptions:
    """How prompts are built. Files are names until a task contains them."""

    dialect: str = "openai"
    """``text`` for models without chat."""
    model: str = ""
    """Decides how tokens are counted."""
    context_length: int | None = None
    response_length: int | None = None
    generation_type: GenerationType = "normal"
    greeting: int = 0
    now: str = DEFAULT_NOW.isoformat()
    strict: bool = False
    on_overflow: OnOverflow = "error"
    allow_scripts: bool = False
    llm_options: FrozenObject = field(default_factory=lambda: EMPTY_OBJECT)
    instruct: str = ""
    context_template: str = ""
    system_prompt: str = ""
    regex_scripts: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    files: tuple[FileRef, ...] = ()
    """The files that the fields above name."""

    @classmethod
    def read(cls, value: object, defaults: Mapping[str, object], where: str) -> Self:
        """Read options over the defaults of a grid."""
        if not is_mapping(value):
            raise ConfigError(f"{where} must be tables, not {value!r}", code="INVALID_GRID")
        known = [each.name for each in dataclasses.fields(cls) if each.name != "files"]
        fields: dict[str, object] = {}
        for key, given in {**defaults, **value}.items():
            if key not in known:
                raise ConfigError(f"no option {key!r}{suggestion(key, known)}", code="INVALID_GRID")
            fields[key] = _field(key, given)
        return cls(**fields)  # pyright: ignore[reportArgumentType]  # checked by _field

    def to_dict(self) -> JsonObject:
        """Return the options that are not the default, and the time."""
        given: dict[str, object] = {}
        for each in dataclasses.fields(self):
            value = getattr(self, each.name)
            if each.name != "files" and (each.name == "now" or value not in (each.default, EMPTY_OBJECT)):
                given[each.name] = value
        return thaw_object(given)

    def file_names(self) -> tuple[str, ...]:
        """Return the names of the files that the options need."""
        single = (name for name in (self.instruct, self.context_template, self.system_prompt) if name)
        return (*single, *self.regex_scripts, *self.modules)

    def with_files(self, files: tuple[FileRef, ...]) -> Self:
        """Return a copy with its files."""
        return dataclasses.replace(self, files=files)

    @property
    def clock_time(self) -> datetime:
        """The time that macros see."""
        return datetime.fromisoformat(self.now)


_TEXTS: Final = ("dialect", "model", "generation_type", "on_overflow", "instruct", "context_template", "system_prompt")
_NUMBERS: Final = ("context_length", "response_length", "greeting")


def _field(key: str, value: object) -> object:
    if key == "now":
        return _moment(value)
    if key == "llm_options" and is_mapping(value):
        return freeze_object(value)
    if key in ("regex_scripts", "modules") and (isinstance(value, str) or is_sequence(value)):
        return (value,) if isinstance(value, str) else tuple(str(each) for each in value)
    wanted = "a text" if key in _TEXTS else "a whole number" if key in _NUMBERS else "true or false"
    fits = isinstance(value, str if key in _TEXTS else int if key in _NUMBERS else bool)
    if not fits or (key in _NUMBERS and isinstance(value, bool)):
        wanted = {"llm_options": "a table", "regex_scripts": "paths", "modules": "paths"}.get(key, wanted)
        raise ConfigError(f"option {key} must be {wanted}, not {value!r}", code="INVALID_GRID")
    return value


def _moment(value: object) -> str:
    moment = value
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            moment = None
    elif isinstance(value, date) and not isinstance(value, datetime):
        moment = datetime.combine(value, time())
    if not isinstance(moment, datetime):
        raise ConfigError(f"option now must be a time such as 2026-01-01T12:00:00Z, not {value!r}", code="INVALID_GRID")
    return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).isoformat()


class Keyed(Protocol):
    """What every task has."""

    @property
    def key(self) -> str:
        """A hash in hex of everything that goes into the record: it names the record."""
        ...


class Task(NamedTuple):
    """One record to make. Values are shared between tasks, so that many can be sent cheaply."""

    key: str
    platform: str
    preset: FileRef | None
    card: FileRef
    books: tuple[FileRef, ...]
    persona: Persona
    chat: FileRef | None
    options: BuildOptions
    message: str
    seed: int | str

    def names(self) -> JsonObject:
        """Return the inputs by name, as a record has them."""
        return {
            "platform": self.platform,
            "card": self.card.name,
            "preset": self.preset.name if self.preset is not None else None,
            "books": [book.name for book in self.books],
            "persona": self.persona.to_dict(),
            "chat": self.chat.name if self.chat is not None else None,
            "message": self.message,
            "seed": self.seed,
            "options": self.options.to_dict(),
        }
