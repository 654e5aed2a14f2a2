"""Detects the kind of other files, by their first bytes or their content."""

from __future__ import annotations

import json
from collections.abc import Mapping

from tavernkit._values import is_list, is_mapping
from tavernkit.cards._risum import rpack_decode
from tavernkit.errors import FileFormatError
from tavernkit.risu_ai._files.database_codec import BLOCKS, MARK

_STARTS: Mapping[bytes, str] = {
    b"\x89PNG": "a PNG picture, perhaps a card (`tavernkit.load`) or a persona",
    b"PK\x03\x04": "an archive, perhaps a card (`tavernkit.load`)",
    b"\x6f\x00": "a module (`risu_ai.read_module`)",
    b"\xff\xd8\xff": "a JPEG picture",
    b"RIFF": "a WEBP picture or a sound",
    b"//@": "a plugin, which is never run",
    b"SQLite format 3": "an SQLite database",
}
_TYPES: Mapping[str, str] = {
    "risuChat": "a chat (`risu_ai.ChatFile.load`)",
    "risuAllChats": "the chats of one character (`risu_ai.ChatFile.load`)",
    "risuModule": "a module (`risu_ai.read_module`)",
    "risu": "a lorebook or a HypaV3 preset",
    "regex": "a file of regex scripts (`risu_ai.read_scripts`)",
    "preset": "a preset (`risu_ai.Preset.load`)",
}
_KEYS: Mapping[str, str] = {
    "spec": "a character card (`tavernkit.load`)",
    "char_name": "a character card (`tavernkit.load`)",
    "prompts": "a preset of SillyTavern (`risu_ai.Preset.load`)",
    "promptTemplate": "a preset or a settings report: it has no characters",
    "mainPrompt": "a preset or a settings report: it has no characters",
    "entries": "a lorebook (`risu_ai.import_lorebook`)",
    "chaId": "one character of a database that is stored in parts: open the folder that has all of them",
    "message": "a chat, perhaps from cold storage: open the folder that has the database, too",
}


def is_database(start: bytes) -> bool:
    """Return True if a file with this beginning is marked as a database."""
    return start.startswith((BLOCKS, *(MARK + bytes([version]) for version in (7, 8, 9))))


def foreign_file(start: bytes) -> str:
    """Return the kind of a file that cannot be a database, or an empty text."""
    for mark, kind in _STARTS.items():
        if start.startswith(mark):
            return kind
    return "a preset (`risu_ai.Preset.load`)" if rpack_decode(start[:3]) == b"\x1f\x8b\x08" else ""


def refuse_foreign(data: bytes, what: str, wanted: str, error: type[FileFormatError]) -> None:
    """Raise an error for a file that is certainly another kind of file.

    Args:
        data: The file.
        what: What it is called.
        wanted: What it should be, in words.
        error: The error to raise.
    """
    found = "a save (`risu_ai.Save.load`)" if is_database(data) else foreign_file(data)
    if found:
        raise error(f"{what}: this is {found}, not {wanted}")


def is_text(start: bytes) -> bool:
    """Return True if a file with this beginning is text."""
    try:
        text = start.decode("utf-8")
    except UnicodeDecodeError as error:
        if error.start < len(start) - 3:  # the end may cut a character in two
            return False
        text = start[: error.start].decode("utf-8")
    return bool(text) and not any(character < " " and character not in "\t\r\n\f" for character in text)


def foreign_lines(data: bytes) -> str:
    """Return the kind of a file with a JSON value on each line, or an empty text."""
    try:
        first: object = json.loads(data.partition(b"\n")[0])
    except (ValueError, RecursionError):
        return ""
    if is_mapping(first) and first.keys() & {"user_name", "chat_metadata", "character_name"}:
        return "a chat of SillyTavern (`risu_ai.ChatFile.load`)"
    return "a list of JSON lines"


def foreign_json(value: object) -> str:
    """Name the kind of a JSON value or unpacked file that is not a database; an empty text if it may be one."""
    if is_list(value):
        first = value[0] if value else None
        if is_mapping(first) and "role" in first and "data" in first:
            return _KEYS["message"]
        return "a list: perhaps triggers, a bias table or a data set"
    if not is_mapping(value) or isinstance(value.get("characters"), list):
        return ""
    kind = value.get("type")
    if isinstance(kind, str) and kind in _TYPES:
        return _TYPES[kind]
    return next((name for key, name in _KEYS.items() if key in value), "")
