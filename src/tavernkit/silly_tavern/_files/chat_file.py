"""SillyTavern's chat files: a header line and one JSON object per message."""

from __future__ import annotations

import dataclasses
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from os import PathLike
from pathlib import Path

from tavernkit._arguments import checked
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
from tavernkit.cards._json_text import decode_text, dump_json, parse_json
from tavernkit.cards._source import FileContent, called, read_file, stem
from tavernkit.errors import FileFormatError, Warn, log_warning, refuse_warning
from tavernkit.prompt._message import Message
from tavernkit.silly_tavern._chat.chat_message import ChatMessage
from tavernkit.silly_tavern._limits import MAX_CHAT_FILE_BYTES, MAX_CHAT_LINES

_SAYS = frozenset(
    {
        *("note_prompt", "note_interval", "note_position", "note_depth", "note_role"),
        *("scenario", "mes_example", "system_prompt", "world_info"),
    }
)
"""What a header may say about prompts; most say nothing."""


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
    earlier: str = field(default="", repr=False)

    @classmethod
    @checked
    def load(cls, source: FileContent, *, warn: Warn = log_warning, strict: bool = False) -> ChatFile:
        """Read a chat file; unreadable parts are reported and skipped or replaced, or raise if ``strict``.

        Args:
            source: The file: its path or its content.
            warn: Called with each warning.
            strict: Raise an error instead of warning.
        """
        content = read_file(source, MAX_CHAT_FILE_BYTES, limit="MAX_CHAT_FILE_BYTES")
        report = refuse_warning if strict else warn
        try:
            parts = _decoded_parts(content)
        except UnicodeDecodeError:
            parts = _split_long(decode_text(content, report, what=called(source)))
        del content  # save memory for very long files
        return cls._of_parts(parts, stem(source), report)

    @classmethod
    def loads(cls, text: str, *, name: str = "", warn: Warn = log_warning) -> ChatFile:
        """Read the text of a chat file.

        Args:
            text: The content of the file.
            name: What the chat is called.
            warn: Called with each warning.
        """
        return cls._of_parts(_split_long(text), name, warn)

    @classmethod
    def _of_parts(cls, parts: tuple[str, str, str], name: str, warn: Warn) -> ChatFile:
        where = f"chat {name!r}" if name else "chat"
        head, earlier, rest = parts
        if earlier:
            warn(f"{where} is very long: only its last {MAX_CHAT_LINES:,} lines are read, {_lines(earlier):,} are not")
        objects = [*_objects(head, where, warn), *_objects(rest, where, warn, start=_lines(head) + _lines(earlier))]
        header: Mapping[str, object] = EMPTY_OBJECT
        if objects and "mes" not in objects[0]:
            header, objects = objects[0], objects[1:]
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
        header = {"user_name": "unused", "character_name": "unused", **thaw_object(self.header)}
        header["chat_metadata"] = self.metadata.to_json()
        messages = (dump_json(message.to_json()) for message in self.messages)
        return "\n".join([dump_json(header), *([self.earlier] if self.earlier else []), *messages])

    @checked
    def save(self, path: str | PathLike[str]) -> None:
        """Write the chat to a file."""
        Path(path).write_text(self.dumps(), encoding="utf-8")

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


def _decoded_parts(content: bytes) -> tuple[str, str, str]:
    """Decode a chat file in the parts that ``_split_long()`` makes, without a second copy of a very long text."""
    if content.count(b"\n") <= MAX_CHAT_LINES:
        return "", "", content.decode("utf-8-sig")
    view, start, end = memoryview(content), content.find(b"\n") + 1, len(content)
    head = str(view[: start - 1], "utf-8-sig")
    while end > start and content[end - 1] in b"\r\n":
        end -= 1
    if '"mes"' in head:
        head, start = "", 3 if content.startswith(BOM_UTF8) else 0
    cut = end
    for _ in range(MAX_CHAT_LINES):
        cut = content.rfind(b"\n", start, cut)
        if cut < 0:
            return head, "", str(view[start:end], "utf-8")
    return head, str(view[start:cut], "utf-8"), str(view[cut + 1 : end], "utf-8")


def _split_long(text: str) -> tuple[str, str, str]:
    """Split the text of a chat: the header, the lines beyond the limit, and those that are read."""
    if text.count("\n") <= MAX_CHAT_LINES:
        return "", "", text
    head, _, lines = text.partition("\n")
    lines = lines.rstrip("\r\n")
    if '"mes"' in head:  # there is no header, so this is a message like the others
        head, lines = "", f"{head}\n{lines}"
    cut = len(lines)
    for _ in range(MAX_CHAT_LINES):
        cut = lines.rfind("\n", 0, cut)
        if cut < 0:
            return head, "", lines
    return head, lines[:cut], lines[cut + 1 :]


def _lines(text: str) -> int:
    return text.count("\n") + 1 if text else 0


def _objects(text: str, where: str, warn: Warn, *, start: int = 0) -> Iterable[Mapping[str, object]]:
    # Only a line feed ends a line: JSON may contain U+2028 and others, at which str.splitlines would split.
    for number, line in enumerate(text.split("\n"), start=start + 1):
        if not line.strip():
            continue
        try:
            value: object = parse_json(line, what=f"{where}, line {number}", warn=warn)
        except FileFormatError as error:
            warn(f"{error}; the line is skipped")
            continue
        if is_mapping(value):
            yield value
        else:
            warn(f"{where}, line {number} is skipped: a message is a JSON object, not {type(value).__name__}")


def _text_or_none(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _object(value: FrozenJson) -> FrozenObject:
    return value if isinstance(value, Mapping) else EMPTY_OBJECT
