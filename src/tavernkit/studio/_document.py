"""The documents that Studio edits: JSON read from any file format, and how to write it back."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal, TypeAlias, get_args

from tavernkit._values import Json, JsonObject, is_list, is_object, thaw, thaw_object
from tavernkit.cards import DEFAULT_LIMITS, Bundle, Character, FileKind, kind_of, load, to_bytes
from tavernkit.cards._json_text import dump_json, parse_json
from tavernkit.cards._source import read_file
from tavernkit.conversation._books import parse_book
from tavernkit.errors import FileFormatError, TavernKitError, WarningLog
from tavernkit.risu_ai._files.chat_file import ChatFile as RisuChatFile
from tavernkit.risu_ai._files.chat_file import chat_json, write_chats
from tavernkit.risu_ai._files.preset import Preset as RisuPreset
from tavernkit.risu_ai._files.preset_file import write_preset
from tavernkit.risu_ai._objects import RisuChat
from tavernkit.silly_tavern import ContextTemplate, InstructTemplate, Preset
from tavernkit.silly_tavern._files.chat_file import ChatFile
from tavernkit.studio._changes import same_json
from tavernkit.studio.errors import StudioError

Kind: TypeAlias = Literal[
    "card", "book", "preset", "context_template", "instruct", "system_prompt", "regex", "persona", "chat", "turn"
]
"""What a document is."""

KINDS: Final[tuple[Kind, ...]] = get_args(Kind)


def as_kind(name: str | None) -> Kind | None:
    """Return a kind by its name; None if there is none."""
    return next((each for each in KINDS if each == name), None)


JSON: Final = "json"
WORLD_INFO, CHARACTER_BOOK, LOREBOOK = "world_info", "character_book", "lorebook"
JSONL, RISU_CHAT = "jsonl", "risu_chat"
RISU_PRESET, PACKED_PRESET = "risu_ai", "risup"

_KIND_OF_FILE: Final[Mapping[FileKind, Kind]] = {
    FileKind.CARD: "card",
    FileKind.WORLD_BOOK: "book",
    FileKind.CHARACTER_BOOK: "book",
    FileKind.LOREBOOK: "book",
    FileKind.MODULE: "book",
    FileKind.PRESET: "preset",
    FileKind.RISU_PRESET: "preset",
    FileKind.CONTEXT_TEMPLATE: "context_template",
    FileKind.INSTRUCT_TEMPLATE: "instruct",
    FileKind.REGEX: "regex",
}
_UNSAFE = re.compile(r'[\x00-\x1f/\\:*?"<>|]')
_INDENT = re.compile(r"\n([ \t]+)\"")


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One edited file. ``data`` is never changed in place: an edit makes a new document.

    ``original`` is the data on disk, ``digest`` that of the file it was read from.
    """

    id: str
    """The id in the workspace."""
    kind: Kind
    """What it is: ``card``, ``book``, ``preset``, ``chat``, …"""
    name: str
    """What people call it."""
    data: Json
    format: str = JSON
    """The format of the file: ``json``, ``jsonl``, ``world_info``, …"""
    path: Path | None = None
    """The file that it was read from; None if it was never saved."""
    original: Json = None
    digest: str = ""
    indent: str | int | None = 4
    """How the JSON of the file is indented; None for one line."""
    newline: bool = False
    """True if the file ends with a line feed."""
    bundle: Bundle | None = None
    """The loaded card file, if it is more than JSON: its picture and assets are written again."""
    item: str = ""
    """Its id in the service's library."""
    slot: str = ""
    """For a book of an installation: the input of a build that it belongs to."""
    warnings: tuple[str, ...] = ()
    """Warnings about the file."""
    revision: int = 1
    """Increases with every edit."""

    @property
    def saved(self) -> bool:
        """True if nothing has changed since it was read or saved."""
        return same_json(self.data, self.original)

    @property
    def home(self) -> str:
        """The pointer of a card's fields."""
        return "/data" if self.kind == "card" and _fields(self.data) is not self.data else ""

    @property
    def book(self) -> str | None:
        """The pointer of the book inside a card, if it has one."""
        if self.kind != "card" or not is_object(_fields(self.data).get("character_book")):
            return None
        return f"{self.home}/character_book"

    @property
    def title(self) -> str:
        """A readable title: for a card or persona, its current name."""
        if self.kind in ("card", "persona"):
            name = _fields(self.data).get("name")
            if isinstance(name, str) and name.strip():
                return name
        return self.name

    @property
    def file_name(self) -> str:
        """The name of its file, or of a new one."""
        if self.path is not None:
            return self.path.name
        ending = {JSONL: ".jsonl", PACKED_PRESET: ".risup"}.get(self.format, ".json")
        if self.bundle is not None:
            ending = f".{self.format}"
        return f"{_UNSAFE.sub('_', self.name).strip('. ')[:100] or self.kind}{ending}"

    def with_data(self, data: Json, revision: int) -> Document:
        """Return the document with other data.

        Args:
            data: The new data.
            revision: Its new revision.
        """
        return replace(self, data=data, revision=revision)

    def to_dict(self, *, data: bool = True) -> JsonObject:
        """Return the document for the page, without folder names."""
        body: JsonObject = {
            "id": self.id,
            "kind": self.kind,
            "name": self.title,
            "format": self.format,
            "file": self.path.name if self.path is not None else None,
            "writable": self.path is not None or bool(self.item),
            "saved": self.saved,
            "revision": self.revision,
            "home": self.home,
            "book": self.book,
            "warnings": list(self.warnings),
        }
        if data:
            body["data"] = self.data
        return body


def read_document(source: Path | bytes, *, name: str, kind: Kind | None = None, document_id: str = "") -> Document:
    """Read a file.

    Args:
        source: The path of the file, or its content.
        name: The file's name.
        kind: Its kind; detected by default.
        document_id: The id of the document.

    Raises:
        FileFormatError: It is something else, or cannot be read.
    """
    content = read_file(source, DEFAULT_LIMITS.max_file_bytes, limit="max_file_bytes")
    path = source if isinstance(source, Path) else None
    log = WarningLog()
    chosen = kind or _find_kind(content, name)
    try:
        read = _READERS[chosen](content, name, log)
    except TavernKitError as error:
        raise FileFormatError(f"{name}: {error}") from error
    return replace(
        read,
        id=document_id,
        path=path if read.path is None else None,
        original=read.data,
        digest=digest_of(content),
        warnings=tuple(log.messages),
    )


def new_document(document_id: str, kind: Kind, name: str, data: Json, *, format_: str = JSON) -> Document:
    """Make a document without a file."""
    return Document(id=document_id, kind=kind, name=name, data=data, original=data, format=format_)


def file_content(document: Document) -> bytes:
    """Return the content of a document's file, in its original format.

    Raises:
        StudioError: Its data can no longer be written in that format.
    """
    try:
        if not _is_text(document):
            return _write_binary(document)
        try:
            return _write(document).encode()
        except UnicodeEncodeError:  # lone surrogates can only be written as escapes
            return _write(document, ascii_only=True).encode()
    except (TavernKitError, ValueError, TypeError) as error:
        raise StudioError(422, f"{document.title} cannot be written: {error}", code="cannot_write") from error


def digest_of(content: bytes) -> str:
    """Return a digest of a file's content."""
    return hashlib.sha256(content).hexdigest()


def empty_data(kind: Kind, *, risu: bool = False) -> tuple[Json, str]:
    """Return the data and format of a new document; presets and templates begin as the program's defaults.

    Args:
        kind: What it is.
        risu: True for RisuAI's preset.

    Raises:
        StudioError: Documents of this kind cannot be made.
    """
    if kind == "preset":
        return (RisuPreset().to_json(), RISU_PRESET) if risu else (Preset.default().to_json(), JSON)
    if kind == "context_template":
        return ContextTemplate().to_json(), JSON
    if kind == "instruct":
        return InstructTemplate().to_json(), JSON
    made = _EMPTY.get(kind)
    if made is None:
        raise StudioError(422, f"a new {kind} cannot be made: open a file", code="cannot_make")
    return thaw(made[0]), made[1]


_EMPTY: Final[Mapping[str, tuple[object, str]]] = {
    "card": (
        {
            "spec": "chara_card_v2",
            "spec_version": "2.0",
            "data": {
                "name": "New character",
                "description": "",
                "personality": "",
                "scenario": "",
                "first_mes": "",
                "mes_example": "",
                "creator_notes": "",
                "system_prompt": "",
                "post_history_instructions": "",
                "alternate_greetings": [],
                "tags": [],
                "creator": "",
                "character_version": "",
                "extensions": {},
            },
        },
        JSON,
    ),
    "book": ({"entries": {}}, WORLD_INFO),
    "regex": ([], JSON),
    "chat": ({"header": {"chat_metadata": {}}, "messages": []}, JSONL),
    "system_prompt": ({"content": "", "post_history": ""}, JSON),
}


def _fields(data: Json) -> JsonObject:
    """Return the object with a card's or a persona's fields; see ``tavernkit.cards._character.fields_home()``."""
    if not is_object(data):
        return {}
    inner = data.get("data")
    return inner if is_object(inner) and ("spec" in data or "name" in inner) else data


def _find_kind(content: bytes, name: str) -> Kind:
    suffix = Path(name).suffix.lower()
    if suffix == ".jsonl":
        return "chat"
    if suffix in (".risup", ".risupreset"):
        return "preset"
    if content.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"["):
        value = parse_json(content, what=name, warn=WarningLog())
        if is_object(value) and value.get("type") in ("risuChat", "risuAllChats"):
            return "chat"
        found = kind_of(value)
        if found is not None and found in _KIND_OF_FILE:
            return _KIND_OF_FILE[found]
        if is_object(value) and "content" in value and "name" in value:
            return "system_prompt"
        raise FileFormatError(f"{name} is not a card, book, preset, template, chat or regex script")
    return "card"


def _read_card(content: bytes, name: str, warn: WarningLog) -> Document:
    bundle = load(content, warn=warn)
    card = bundle.character
    format_ = bundle.source_format.value if bundle.source_format is not None else JSON
    if format_ == JSON:
        value = parse_json(content, what=name, warn=WarningLog())
        return _from_json(value, "card", card.name, content)
    return Document(id="", kind="card", name=card.name, data=card.to_card(), format=format_, bundle=bundle)


def _read_book(content: bytes, name: str, warn: WarningLog) -> Document:
    data = parse_book(content, name, warn)
    format_ = LOREBOOK if data.get("type") == "risu" else WORLD_INFO
    if is_list(data.get("entries")):
        format_ = CHARACTER_BOOK
    stem = Path(name).stem
    value = parse_json(content, what=name, warn=WarningLog()) if content.lstrip()[:1] == b"{" else None
    if value == data:
        return replace(_from_json(data, "book", stem, content), format=format_)
    # A book inside another file can be edited, but not written back there.
    return Document(id="", kind="book", name=stem, data=data, format=format_, path=Path(name))


def _read_preset(content: bytes, name: str, warn: WarningLog) -> Document:
    stem = Path(name).stem
    if content.lstrip()[:1] != b"{":
        preset = RisuPreset.load(content, warn=warn)
        return Document(id="", kind="preset", name=preset.name or stem, data=preset.to_json(), format=PACKED_PRESET)
    value = _object(content, name, warn)
    read = _from_json(value, "preset", stem, content)
    return replace(read, format=RISU_PRESET) if kind_of(value) is FileKind.RISU_PRESET else read


def _read_template(kind: Kind) -> Callable[[bytes, str, WarningLog], Document]:
    def read(content: bytes, name: str, warn: WarningLog) -> Document:
        return _from_json(_object(content, name, warn), kind, Path(name).stem, content)

    return read


def _read_regex(content: bytes, name: str, warn: WarningLog) -> Document:
    value = parse_json(content, what=name, warn=warn)
    if not is_object(value) and not is_list(value):
        raise FileFormatError("regex scripts are a JSON object or a list of them")
    return _from_json(value, "regex", Path(name).stem, content)


def _read_chat(content: bytes, name: str, warn: WarningLog) -> Document:
    stem = Path(name).stem
    if Path(name).suffix.lower() != ".jsonl" and b"risu" in content[:400]:
        chats = RisuChatFile.load(content, warn=warn).chats
        if len(chats) != 1:
            raise FileFormatError(f"it holds {len(chats)} chats: export one of them to a separate file")
        return Document(id="", kind="chat", name=stem, data=chat_json(chats[0]), format=RISU_CHAT)
    chat = ChatFile.load(content, warn=warn)
    if not chat.header and not chat.messages:
        raise FileFormatError("there is no chat in it")
    data: JsonObject = {
        "header": {**thaw_object(chat.header), "chat_metadata": chat.metadata.to_json()},
        "messages": [line.to_json() for line in chat.messages],
    }
    return Document(id="", kind="chat", name=stem, data=data, format=JSONL, newline=content.endswith(b"\n"))


def _read_persona(content: bytes, name: str, warn: WarningLog) -> Document:
    return _from_json(_object(content, name, warn), "persona", Path(name).stem, content)


def _object(content: bytes, name: str, warn: WarningLog) -> JsonObject:
    value = parse_json(content, what=name, warn=warn)
    if not is_object(value):
        raise FileFormatError("it is not a JSON object")
    return value


def _from_json(value: Json, kind: Kind, name: str, content: bytes) -> Document:
    start = content[:4096].decode("utf-8", "replace")
    found = _INDENT.search(start)
    indent = None if found is None else found[1]
    return Document(id="", kind=kind, name=name, data=value, indent=indent, newline=content.endswith(b"\n"))


_READERS: Final[Mapping[Kind, Callable[[bytes, str, WarningLog], Document]]] = {
    "card": _read_card,
    "book": _read_book,
    "preset": _read_preset,
    "context_template": _read_template("context_template"),
    "instruct": _read_template("instruct"),
    "system_prompt": _read_template("system_prompt"),
    "regex": _read_regex,
    "persona": _read_persona,
    "chat": _read_chat,
    "turn": _read_template("turn"),
}


def _is_text(document: Document) -> bool:
    return document.bundle is None and document.format not in (PACKED_PRESET, RISU_CHAT)


def _write(document: Document, *, ascii_only: bool = False) -> str:
    end = "\n" if document.newline else ""
    if document.format == JSONL:
        return "\n".join(map(dump_json, chat_lines(document.data))) + end
    if document.indent is None:
        return json.dumps(_with_copies(document), ensure_ascii=ascii_only, separators=(",", ":")) + end
    return json.dumps(_with_copies(document), ensure_ascii=ascii_only, indent=document.indent) + end


def _write_binary(document: Document) -> bytes:
    data = document.data
    if not is_object(data):
        raise FileFormatError("it is not a JSON object")
    if document.format == RISU_CHAT:
        return write_chats(RisuChatFile((RisuChat.from_json(data),)))
    if document.bundle is not None:
        card = Character.from_card(_with_copies(document), warn=WarningLog())
        assert document.bundle.source_format is not None
        return to_bytes(document.bundle.replace(card=card), document.bundle.source_format, version=card.version)
    return write_preset(RisuPreset.from_json(data, warn=WarningLog()), ".risup")


def _with_copies(document: Document) -> Json:
    """Return a card's data with updated copies of fields outside of ``data``, which SillyTavern writes."""
    data, original = document.data, document.original
    if document.kind != "card" or not is_object(data) or not is_object(original):
        return data
    fields, before = data.get("data"), original.get("data")
    if not is_object(fields) or not is_object(before):
        return data
    copies = {
        key for key, value in original.items() if key in before and isinstance(value, str) and before[key] == value
    }
    return {key: fields.get(key, value) if key in copies else value for key, value in data.items()}


def chat_lines(data: Json) -> list[JsonObject]:
    """Return the lines of a SillyTavern chat file: the header, and the messages."""
    if not is_object(data):
        return []
    messages = data.get("messages")
    lines = [line for line in messages if is_object(line)] if is_list(messages) else []
    header = data.get("header")
    found: JsonObject = {"user_name": "unused", "character_name": "unused", **(header if is_object(header) else {})}
    return [found, *lines]
