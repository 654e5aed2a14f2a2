"""Chat files: one chat or all chats of a character, and SillyTavern's as RisuAI imports them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path

from tavernkit._atomic import write_atomically
from tavernkit._dataclass import dataclass
from tavernkit._text.js_values import json_stringify, own_keys, quote_json
from tavernkit._values import (
    FrozenObject,
    Json,
    JsonObject,
    freeze_object,
    is_mapping,
    is_sequence,
    shown,
    thaw,
    thaw_object,
)
from tavernkit.cards._json_text import parse_json
from tavernkit.cards._limits import Limits
from tavernkit.cards._source import FileContent, read_file
from tavernkit.errors import FileFormatError, LimitExceededError, Warn, log_warning, refuse_warning
from tavernkit.risu_ai._limits import MAX_CHAT_BYTES
from tavernkit.risu_ai._objects import RisuChat, RisuMessage

ONE_CHAT, ALL_CHATS = "risuChat", "risuAllChats"
VERSIONS = (1, 2)
WRITTEN_VERSION = 2
VARIABLE_MARK = "$"
"""The prefix of variable names in a chat's ``scriptstate``."""


_PAGE_START = 1000
_START_BYTES = b"\xef\xbb\xbf \t\r\n"
"""What may come before the text of a file: a byte order mark and white space."""
_PAGE_MARK = b'"idat"'
_USER = re.compile(r"\{\{user\}\}|<user>", re.IGNORECASE)
_CHARACTER = re.compile(r"\{\{char\}\}|<(?:char|bot)>", re.IGNORECASE)


class ChatFileError(FileFormatError):
    """The file contains no RisuAI chat."""


@dataclass(frozen=True, slots=True)
class ChatFile:
    """The chats of a file, and the folders a user keeps them in."""

    chats: tuple[RisuChat, ...]
    """The chats, in the order of the file."""
    folders: tuple[FrozenObject, ...] = ()
    """The folders, as RisuAI stores them."""

    @classmethod
    def load(cls, source: FileContent, *, warn: Warn = log_warning, strict: bool = False) -> ChatFile:
        """Read a ``.json`` chat file, with one chat or all of them, RisuAI's ``.html``, or SillyTavern's ``.jsonl``.

        Args:
            source: The file: its path or its content.
            warn: Called with each warning.
            strict: Raise an error instead of warning.
        """
        warn = refuse_warning if strict else warn
        data = read_file(source, MAX_CHAT_BYTES, limit="MAX_CHAT_BYTES")
        if _has_lines(data) if isinstance(source, bytes) else Path(source).suffix.lower() == ".jsonl":
            return cls((read_silly_tavern_chat(data, warn=warn),))
        if data[:_PAGE_START].lstrip(_START_BYTES).startswith(b"<"):
            return cls((_read_page(data, warn),))
        return read_chats(data, warn=warn)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the chats: one as a chat, several as all chats."""
        write_atomically(Path(path), write_chats(self))


def _read_page(data: bytes, warn: Warn) -> RisuChat:
    """Read the chat in an exported page, which is in its own element with escaped angle brackets."""
    start = data.find(b">", data.find(_PAGE_MARK)) if _PAGE_MARK in data else -1
    end = data.find(b"<", start)
    if start < 0 or end < 0:
        raise ChatFileError("the page contains no RisuAI chat")
    text = data[start + 1 : end].replace(b"&lt;", b"<").replace(b"&gt;", b">")
    value = parse_json(text, what="chat", warn=warn, limits=Limits(max_json_file_bytes=MAX_CHAT_BYTES))
    if not is_mapping(value) or not is_sequence(value.get("message")):
        raise ChatFileError("the page contains no RisuAI chat")
    return RisuChat.from_json(value)


def _has_lines(data: bytes) -> bool:
    """Return True if each line is a separate JSON object, as in SillyTavern's chats."""
    first, _, rest = data.partition(b"\n")
    return first.rstrip().endswith(b"}") and (bool(rest.strip()) or b'"chat_metadata"' in first)


def read_chats(data: bytes, *, warn: Warn = log_warning) -> ChatFile:
    """Read the bytes of a chat file; raises ``ChatFileError`` if they contain no chat."""
    if len(data) > MAX_CHAT_BYTES:
        raise LimitExceededError(f"the chat has {len(data)} bytes, more than {MAX_CHAT_BYTES}", limit="MAX_CHAT_BYTES")
    if not data[:_PAGE_START].lstrip(_START_BYTES).startswith(b"{"):
        from tavernkit.risu_ai._files.file_kinds import refuse_foreign  # with the codec of databases

        refuse_foreign(data, "the file", "a chat", ChatFileError)
    value = parse_json(data, what="chat", warn=warn, limits=Limits(max_json_file_bytes=MAX_CHAT_BYTES))
    kind = value.get("type") if is_mapping(value) else None
    if not is_mapping(value) or kind not in (ONE_CHAT, ALL_CHATS):
        raise ChatFileError("the file contains no RisuAI chat: its type is neither risuChat nor risuAllChats")
    if value.get("ver") not in VERSIONS:
        warn(f"chat: version {shown(value.get('ver'))} is not known; it is read like version {WRITTEN_VERSION}")
    content, folders = value.get("data"), value.get("folders")
    items = (content,) if kind == ONE_CHAT else content if is_sequence(content) else ()
    chats = tuple(RisuChat.from_json(item) for item in items if is_mapping(item))
    if len(chats) < len(items):
        warn(f"chat: {len(items) - len(chats)} of the chats are not objects; they are left out")
    return ChatFile(
        chats,
        tuple(freeze_object(each) for each in folders if is_mapping(each)) if is_sequence(folders) else (),
    )


def write_chats(file: ChatFile) -> bytes:
    """Write the bytes of a chat file."""
    chats: list[Json] = [chat_json(chat) for chat in file.chats]
    one = len(chats) == 1
    content: JsonObject = {
        "type": ONE_CHAT if one else ALL_CHATS,
        "ver": WRITTEN_VERSION,
        "data": chats[0] if one else chats,
        "folders": [thaw_object(folder) for folder in file.folders],
    }
    return json_stringify(content).encode("utf-8", "surrogatepass")


def write_chat(chat: JsonObject, messages: Sequence[bytes]) -> list[bytes]:
    """Write a file with one chat and already written messages, in parts: a long chat has megabytes.

    Args:
        chat: The chat as RisuAI stores it; its ``message`` is ignored.
        messages: Its messages, with commas between them.
    """
    parts: list[bytes] = []
    for key in own_keys(chat):
        parts += b",", quote_json(key).encode("utf-8", "surrogatepass"), b":"
        if key == "message":
            parts += b"[", *messages, b"]"
        else:
            parts.append(json_stringify(chat[key]).encode("utf-8", "surrogatepass"))
    start = b'{"type":"%b","ver":%d,"data":{' % (ONE_CHAT.encode(), WRITTEN_VERSION)
    return [start, *parts[1:], b'},"folders":[]}']


def chat_json(chat: RisuChat, variables: Mapping[str, Json] | None = None) -> JsonObject:
    """Write a chat with RisuAI's keys, all others kept; ``variables`` replace its stored ones."""
    written = thaw_object(chat.raw)
    written["message"] = [thaw(message.to_json()) for message in chat.messages]
    before = RisuChat.from_json(chat.raw)
    pairs = (
        ("id", chat.id, before.id),
        ("fmIndex", chat.greeting_index, before.greeting_index),
        ("note", chat.note, before.note),
        ("localLore", chat.local_lore, before.local_lore),
        ("modules", chat.modules, before.modules),
        ("bindedPersona", chat.bound_persona, before.bound_persona),
    )
    written.update((key, thaw(value)) for key, value, old in pairs if value != old or (not chat.raw and value))
    if variables is not None:
        written["scriptstate"] = {f"{VARIABLE_MARK}{name}": value for name, value in variables.items()}
    return written


def chat_variables(chat: RisuChat) -> dict[str, Json]:
    """Return the variables stored in a chat, by their bare names."""
    state = chat.raw.get("scriptstate")
    if not is_mapping(state):
        return {}
    return {name.removeprefix(VARIABLE_MARK): thaw(value) for name, value in state.items()}


def read_silly_tavern_chat(
    data: bytes, *, user: str | None = None, character: str | None = None, warn: Warn = log_warning
) -> RisuChat:
    """Read a ``.jsonl`` chat: every line with a text becomes a message, and macros of names are replaced.

    Without ``user`` and ``character`` the names of the file's first line are written.
    """
    if len(data) > MAX_CHAT_BYTES:
        raise LimitExceededError(f"the chat has {len(data)} bytes, more than {MAX_CHAT_BYTES}", limit="MAX_CHAT_BYTES")
    # Only a line feed ends a line: texts may have other line separators as they are.
    header, *lines = data.decode("utf-8", "replace").removeprefix("\ufeff").split("\n")
    first = _line(header, 1, warn)
    names: Mapping[str, object] = first if is_mapping(first) else {}
    user = user if user is not None else str(names.get("user_name") or "User")
    character = character if character is not None else str(names.get("character_name") or "")
    messages: list[RisuMessage] = []
    for number, line in enumerate(lines, start=2):
        value = _line(line, number, warn) if line.strip() else None
        if is_mapping(value) and isinstance(value.get("mes"), str):
            text = _USER.sub(lambda _: user, str(value["mes"]))
            role = "user" if value.get("is_user") else "char"
            messages.append(RisuMessage(role=role, data=_CHARACTER.sub(lambda _: character, text)))
        elif value is not None:
            warn(f"chat: line {number} has no text; it is left out")
    return RisuChat(messages=tuple(messages))


def _line(text: str, number: int, warn: Warn) -> Json:
    try:
        return parse_json(
            text, what=f"chat line {number}", warn=warn, limits=Limits(max_json_file_bytes=MAX_CHAT_BYTES)
        )
    except FileFormatError as error:
        warn(f"chat: line {number} is left out: {error}")
        return None
