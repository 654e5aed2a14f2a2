"""SillyTavern's chat files: a header line and one JSON object per message."""

from __future__ import annotations

import dataclasses
import json
import math
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from io import BytesIO
from os import SEEK_END, PathLike
from pathlib import Path
from sys import intern
from typing import BinaryIO

from tavernkit._atomic import write_atomically
from tavernkit._dataclass import dataclass
from tavernkit._text.json_reader import as_number
from tavernkit._values import (
    EMPTY_OBJECT,
    FrozenJson,
    FrozenObject,
    JsonObject,
    freeze_object,
    is_mapping,
    thaw,
    thaw_object,
)
from tavernkit.cards._json_text import MAX_DIGITS, decode_text, dump_json, parse_json
from tavernkit.cards._kinds import warn_if_mistaken
from tavernkit.cards._limits import DEFAULT_LIMITS
from tavernkit.cards._source import FileContent, called, file_source, stem
from tavernkit.errors import FileFormatError, Warn, log_warning, refuse_warning
from tavernkit.prompt._block import Message
from tavernkit.silly_tavern._chat.chat_message import ChatMessage
from tavernkit.silly_tavern._limits import MAX_CHAT_FILE_BYTES, MAX_CHAT_LINES

_SAYS = frozenset(
    {
        *("note_prompt", "note_interval", "note_position", "note_depth", "note_role"),
        *("scenario", "mes_example", "system_prompt", "world_info"),
    }
)
"""What a header may say about prompts; most say nothing."""

BLOCK = 1 << 20
"""How much of a file is read at once when its lines are counted."""
MAX_WARNINGS = 10
"""How many skipped lines are named; of another kind of file, every line would be."""


@dataclass(frozen=True, slots=True)
class ChatMetadata:
    """A chat's header: the author's note, overrides of the card, its book, variables and timed lore.

    ``None`` means that the chat does not set it. ``source`` has every key of the file.
    """

    note_prompt: str | None = None
    """The author's note."""
    note_interval: int | float | None = None
    """Insert the note every N user messages; 0 means never."""
    note_position: int | float | None = None
    """Where the note goes: 0 after the main prompt, 1 in the chat, 2 before the main prompt."""
    note_depth: int | float | None = None
    """Messages between the note and the end of the chat."""
    note_role: int | float | None = None
    """The role of the note in the chat: 0 system, 1 user, 2 assistant."""
    scenario: str = ""
    """Replaces the card's scenario, if not empty."""
    mes_example: str = ""
    """Replaces the card's example dialogue, if not empty."""
    system_prompt: str = ""
    """Replaces the card's system prompt, if not empty."""
    world_info: str | None = None
    """The name of the lorebook that is linked to the chat."""
    source: FrozenObject = field(default_factory=lambda: EMPTY_OBJECT)

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> ChatMetadata:
        """Read a header's ``chat_metadata``; numbers may be text, values of the wrong type count as missing."""
        if _SAYS.isdisjoint(data):
            return cls(source=freeze_object(data))
        return cls(
            note_prompt=_text_or_none(data.get("note_prompt")),
            note_interval=as_number(data.get("note_interval")),
            note_position=as_number(data.get("note_position")),
            note_depth=as_number(data.get("note_depth")),
            note_role=as_number(data.get("note_role")),
            scenario=_text_or_none(data.get("scenario")) or "",
            mes_example=_text_or_none(data.get("mes_example")) or "",
            system_prompt=_text_or_none(data.get("system_prompt")) or "",
            world_info=_text_or_none(data.get("world_info")),
            source=freeze_object(data),
        )

    def get(self, key: str) -> FrozenJson:
        """Return any value of the header by its key in the file."""
        return self.source.get(key)

    @property
    def variables(self) -> FrozenObject:
        """The chat's variables."""
        return _object(self.source.get("variables"))

    @property
    def timed_world_info(self) -> FrozenObject:
        """Sticky and cooldown effects of lore entries."""
        return _object(self.source.get("timedWorldInfo"))

    def replace(self, **changes: object) -> ChatMetadata:
        """Return a changed copy."""
        return dataclasses.replace(self, **changes)  # pyright: ignore[reportArgumentType]  # dataclass field types

    def to_json(self) -> JsonObject:
        """Return the metadata in file format, with all changes and unknown keys."""
        if self == _NOTHING:
            return {}
        plain = thaw_object(self.source)
        then = ChatMetadata.from_json(self.source)
        for each in dataclasses.fields(self):
            value: object = getattr(self, each.name)
            if each.name != "source" and value != getattr(then, each.name):
                plain[each.name] = thaw(value)
        return plain


_NOTHING = ChatMetadata()


@dataclass(frozen=True, slots=True)
class ChatFile:
    """A whole chat: its header and its messages, oldest first. Changes make a new one.

    In a very long file only the last lines become messages. Earlier ones are in ``earlier`` unparsed, and are written
    back.
    """

    messages: tuple[ChatMessage, ...] = ()
    """The lines of the chat, oldest first."""
    metadata: ChatMetadata = field(default_factory=ChatMetadata)
    """What the header says about prompts."""
    header: FrozenObject = field(default_factory=lambda: EMPTY_OBJECT)
    """The first line of the file, as it was read."""
    name: str = ""
    """The file name without its extension; macros see it as the chat's id."""
    earlier: bytes = field(default=b"", repr=False)

    @classmethod
    def load(cls, source: FileContent, *, warn: Warn = log_warning, strict: bool = False) -> ChatFile:
        """Read a chat file; unreadable parts are reported and skipped or replaced, or raise if ``strict``.

        Args:
            source: The file: its path or its content.
            warn: Called with each warning.
            strict: Raise an error instead of warning.
        """
        report = refuse_warning if strict else warn
        with file_source(source, MAX_CHAT_FILE_BYTES, limit="MAX_CHAT_FILE_BYTES").open() as stream:
            if json.detect_encoding(stream.read(4)).startswith("utf-8"):
                return cls._read(stream, stem(source), called(source), report)
            stream.seek(0)
            text = decode_text(stream.read(), report, what=called(source))
        return cls.loads(text, name=stem(source), warn=report)

    @classmethod
    def load_end(cls, source: FileContent, *, header_only: bool = False, warn: Warn) -> ChatFile:
        """Read a chat for a build: of a very long one, the earlier lines are not kept, so it must not be saved.

        Args:
            source: The file: its path or its content.
            header_only: Read no messages.
            warn: Called with each warning.
        """
        with file_source(source, MAX_CHAT_FILE_BYTES, limit="MAX_CHAT_FILE_BYTES").open() as stream:
            if json.detect_encoding(stream.read(4)).startswith("utf-8"):
                return cls._read(stream, stem(source), called(source), warn, header_only=header_only, keep=False)
        return cls.load(source, warn=warn)

    @classmethod
    def loads(cls, text: str, *, name: str = "", warn: Warn = log_warning) -> ChatFile:
        """Read the text of a chat file.

        Args:
            text: The content of the file.
            name: What the chat is called.
            warn: Called with each warning.
        """
        return cls._read(BytesIO(text.encode("utf-8", "surrogatepass")), name, "the text", warn)

    @classmethod
    def _read(
        cls, stream: BinaryIO, name: str, file: str, warn: Warn, *, header_only: bool = False, keep: bool = True
    ) -> ChatFile:
        where = f"chat {name!r}" if name else "chat"
        head, start, end = _split(stream, 0 if header_only else MAX_CHAT_LINES)
        stream.seek(start)
        skipped = 0 if header_only else _count_lines(stream, end - start)
        stream.seek(start)
        earlier = stream.read(end - 1 - start) if keep and skipped else b""
        if skipped:
            warn(f"{where} is very long: only its last {MAX_CHAT_LINES:,} lines are read, {skipped:,} are not")
        stream.seek(end)
        texts, parsed = _Texts(), _Objects(where, warn)
        objects = [*parsed.of(texts.of(head)), *parsed.of(texts.of(stream, len(head) + skipped))]
        parsed.report()
        if texts.damaged:
            count, first = len(texts.damaged), texts.damaged[0]
            warn(f"{file}: bytes that are not UTF-8 were replaced by U+FFFD in {count:,} lines, the first is {first}")
        header: Mapping[str, object] = EMPTY_OBJECT
        if objects and "mes" not in objects[0] and (head or not skipped):
            header, objects = objects[0], objects[1:]
            warn_if_mistaken(header, "a chat", what=file, warn=warn)
        metadata = header.get("chat_metadata")
        return cls(
            messages=tuple(map(ChatMessage.from_json, objects)),
            metadata=ChatMetadata.from_json(metadata) if is_mapping(metadata) else ChatMetadata(),
            header=freeze_object(header),
            name=name,
            earlier=earlier,
        )

    @property
    def earlier_lines(self) -> int:
        """How many lines of the file are before the messages."""
        return _lines(self.earlier)

    def dumps(self) -> str:
        """Return the chat as text for a file."""
        return self._content().decode("utf-8", "replace")

    def save(self, path: str | PathLike[str]) -> None:
        """Write the chat to a file."""
        write_atomically(Path(path), self._content())

    def _content(self) -> bytes:
        earlier = [self.earlier] if self.earlier else []
        messages = (dump_json(message.to_json()).encode() for message in self.messages)
        return b"\n".join([self.first_line(), *earlier, *messages])

    def first_line(self) -> bytes:
        """Return the first line of the file: the header."""
        header = {"user_name": "unused", "character_name": "unused", **thaw_object(self.header)}
        header["chat_metadata"] = self.metadata.to_json()
        return dump_json(header).encode()

    def with_messages(self, *messages: ChatMessage) -> ChatFile:
        """Return the chat with messages added at its end."""
        return dataclasses.replace(self, messages=(*self.messages, *messages))

    def with_metadata(self, **changes: object) -> ChatFile:
        """Return the chat with a changed header."""
        return dataclasses.replace(self, metadata=self.metadata.replace(**changes))

    def __iter__(self) -> Iterator[Message]:
        return (message.to_message() for message in self.messages)

    def __len__(self) -> int:
        return len(self.messages)


def _split(stream: BinaryIO, wanted: int) -> tuple[list[bytes], int, int]:
    """Split a file: return the header of a long one, and where the lines begin that are not read, and those that are.

    Args:
        stream: The file.
        wanted: How many lines are read.
    """
    stream.seek(0)
    start = len(BOM_UTF8) if stream.read(len(BOM_UTF8)) == BOM_UTF8 else 0
    found = _cut(stream, wanted)
    stream.seek(start)
    head = stream.readline()
    if b'"mes"' in head:  # there is no header, so this is a message like the others
        return [], start, max(found, start)
    return ([head], stream.tell(), found) if found > stream.tell() else ([], start, start)


def _cut(stream: BinaryIO, wanted: int) -> int:
    """Return where the last lines of a file begin; 0 if it has no more.

    The file is read backwards in blocks: a very long one is never in memory as a whole.
    """
    at = stream.seek(0, SEEK_END)
    blank = True
    while at > 0:
        start = max(at - BLOCK, 0)
        stream.seek(start)
        block = stream.read(at - start)
        if blank:  # line ends after the last line
            block = block.rstrip(b"\r\n")
            blank = not block
        count = block.count(b"\n")
        if count >= wanted:
            place = len(block)
            for _ in range(wanted):
                place = block.rfind(b"\n", 0, place)
            return start + place + 1
        wanted, at = wanted - count, start
    return 0


def _count_lines(stream: BinaryIO, size: int) -> int:
    """Count the lines in the next bytes of a file."""
    blocks = (stream.read(min(BLOCK, size - at)) for at in range(0, size, BLOCK))
    return sum(block.count(b"\n") for block in blocks)


class _Texts:
    """Decodes lines. The numbers of lines that are not UTF-8 are in ``damaged``."""

    def __init__(self) -> None:
        self.damaged: list[int] = []

    def of(self, lines: Iterable[bytes], start: int = 0) -> Iterator[tuple[int, str]]:
        """Yield the number and the text of each line."""
        for number, ended in enumerate(lines, start=start + 1):
            line = ended.removesuffix(b"\n")
            try:
                yield number, line.decode("utf-8", "surrogatepass")
            except UnicodeDecodeError:
                self.damaged.append(number)
                yield number, line.decode("utf-8", "replace")


def _lines(text: bytes) -> int:
    return text.count(b"\n") + 1 if text else 0


class _Objects:
    """Parses lines. The first that are no messages are named in warnings of their own, the others are counted."""

    def __init__(self, where: str, warn: Warn) -> None:
        self._where = where
        self._warn = warn
        self._skipped = 0

    def of(self, lines: Iterable[tuple[int, str]]) -> Iterator[Mapping[str, object]]:
        """Yield the objects of lines."""
        for number, line in lines:
            if not line.strip():
                continue
            try:
                value = parse_line(line, f"{self._where}, line {number}", self._warn)
            except FileFormatError as error:
                self._skip(f"{error}; the line is skipped")
                continue
            if is_mapping(value):
                yield value
            else:
                kind = type(value).__name__
                self._skip(f"{self._where}, line {number} is skipped: a message is a JSON object, not {kind}")

    def report(self) -> None:
        """Say how many more lines were skipped."""
        if self._skipped > MAX_WARNINGS:
            self._warn(f"{self._where}: {self._skipped - MAX_WARNINGS:,} more lines are skipped: is it a chat file?")

    def _skip(self, reason: str) -> None:
        self._skipped += 1
        if self._skipped <= MAX_WARNINGS:
            self._warn(reason)


def parse_line(line: str, what: str, warn: Warn) -> object:
    """Parse a line. Lines share their keys: tens of thousands that have keys of their own take far more memory."""
    if line.count("[") + line.count("{") <= DEFAULT_LIMITS.max_json_depth:
        try:
            return _PLAIN_LINE.decode(line)
        except (ValueError, RecursionError):
            pass
    return parse_json(line, what=what, warn=warn)


def _members(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = {intern(key): value for key, value in pairs}
    if len(members) < len(pairs):
        raise ValueError("a key is given twice")
    return members


def _float(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError("a number is too large")
    return value


def _int(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise ValueError("a number is too large")
    return int(digits)


def _constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


_PLAIN_LINE = json.JSONDecoder(object_pairs_hook=_members, parse_float=_float, parse_int=_int, parse_constant=_constant)
"""Reads lines in which there is nothing to repair or to refuse; others are parsed again."""


def _text_or_none(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _object(value: FrozenJson) -> FrozenObject:
    return value if isinstance(value, Mapping) else EMPTY_OBJECT
