"""One combination of a grid: the small values that a worker builds it from, and the record of the result."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Final, Literal, NamedTuple, Protocol, Self, TypeAlias, get_args

from tavernkit import __version__
from tavernkit._values import (
    EMPTY_OBJECT,
    FrozenObject,
    Json,
    JsonObject,
    freeze_object,
    is_mapping,
    is_object,
    is_sequence,
    thaw_object,
)
from tavernkit.batching._sources import suggestion
from tavernkit.errors import ConfigError
from tavernkit.models._request import Request
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
        return cls(*("" if (given := value.get(key)) is None else str(given) for key in ("name", "description")))

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


BatchFormat: TypeAlias = Literal["jsonl", "parquet", "openai-batch", "chat"]
"""How records are written: whole (``jsonl``, ``parquet``), as requests, or as conversations for training."""
FORMATS: Final[tuple[BatchFormat, ...]] = get_args(BatchFormat)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRecord:
    """The prompt of one combination of a grid, or why there is none."""

    key: str
    """A hash of all inputs, and of TavernKit's version."""
    inputs: JsonObject
    """The inputs by name: ``platform``, ``card``, ``preset``, ``books``, ``persona``, ``chat``, ``message``, …"""
    messages: list[JsonObject] | None = None
    """The prompt, in OpenAI's shape; a text model has ``prompt`` instead."""
    prompt: str | None = None
    """The prompt text for a text model."""
    tokens: int | None = None
    """Tokens of the prompt."""
    fingerprint: str | None = None
    """SHA-256 of what would be sent: equal prompts have equal fingerprints."""
    omissions: Sequence[JsonObject] = ()
    """What did not fit or did not apply, and why; at most 100."""
    omitted: int = 0
    """How many omissions there are in all."""
    warnings: Sequence[str] = ()
    """Warnings of the build."""
    error: JsonObject | None = None
    """Why there is no prompt or no reply: ``type`` and ``message``."""
    model: str | None = None
    """The model that was asked; this and the following fields only with ``generate``."""
    reply: JsonObject | None = None
    """The reply as a message in OpenAI's shape."""
    finish_reason: str | None = None
    """Why the model stopped, such as ``stop`` or ``length``."""
    usage: JsonObject | None = None
    """Tokens of the request and its reply."""
    latency_ms: float | None = None
    """Milliseconds from request to reply."""

    def to_dict(self) -> JsonObject:
        """Return the record as JSON: version 1 of the schema in ``docs/guides/batch.md``."""
        record: JsonObject = {
            "key": self.key,
            "schema": SCHEMA_VERSION,
            "inputs": self.inputs,
            "messages": None if self.messages is None else [*self.messages],
            "prompt": self.prompt,
            "tokens": self.tokens,
            "fingerprint": self.fingerprint,
            "omitted": self.omitted,
            "omissions": [*self.omissions],
            "warnings": [*self.warnings],
            "error": self.error,
        }
        if self.model is not None:
            record |= {
                "model": self.model,
                "reply": self.reply,
                "finish_reason": self.finish_reason,
                "usage": self.usage,
                "latency_ms": self.latency_ms,
            }
        return record


Encoder: TypeAlias = Callable[[BatchRecord, Request | None], JsonObject]


def _batch_request(record: BatchRecord, request: Request | None) -> JsonObject:
    """Return a line of the file for batch endpoints; they return ``custom_id`` with the reply."""
    if request is None:
        raise ConfigError("a record without a prompt is not a request")
    path = "/v1/chat/completions" if request.prompt is None else "/v1/completions"
    return {"custom_id": record.key, "method": "POST", "url": path, "body": request.body(warn=lambda _: None)}


def _conversation(record: BatchRecord, request: Request | None) -> JsonObject:
    """Return a row for training: the messages of the prompt, and the reply if there is one.

    All rows have the same fields of the same types, in every file, because readers take the types from the first.
    """
    del request
    reply = [record.reply] if record.reply is not None else []
    if record.messages is None:
        completion = "".join(_text(each.get("content")) for each in reply)
        return {"key": record.key, "prompt": record.prompt or "", "completion": completion}
    return {
        "key": record.key,
        "messages": [
            {"role": str(each.get("role")), "content": _text(each.get("content"))}
            for each in (*record.messages, *reply)
        ],
    }


def _text(content: Json) -> str:
    """Return the text of a message, without pictures and other parts."""
    if isinstance(content, list):
        return "\n\n".join(_text(part.get("text")) for part in content if is_object(part) and part.get("text"))
    return content if isinstance(content, str) else ""


_ENCODERS: Final[Mapping[str, Encoder]] = {"openai-batch": _batch_request, "chat": _conversation}


def encode(record: BatchRecord, request: Request | None, form: BatchFormat) -> tuple[bytes, bool]:
    """Return a record as a line, and True if it goes to the errors: some formats cannot represent failures."""
    encoder = _ENCODERS.get(form)
    failed = encoder is not None and record.error is not None
    value = record.to_dict() if encoder is None or failed else encoder(record, request)
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode() + b"\n", failed
    except UnicodeEncodeError:  # a lone surrogate, which JSON can escape but UTF-8 cannot encode
        return json.dumps(value, separators=(",", ":")).encode() + b"\n", failed
