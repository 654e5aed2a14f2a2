"""Links a session to its file in a served folder or save, with both versions when they were last in sync."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from tavernkit._text.js_values import json_stringify
from tavernkit._values import Json, JsonObject, is_object
from tavernkit.risu_ai import RisuChat
from tavernkit.risu_ai._files.chat_file import chat_json
from tavernkit.server.library.stored_folders import FILE, file_id
from tavernkit.server.storage.chats import ChatState
from tavernkit.server.storage.items import ItemInfo, delete_item, infos, item_file, save_item
from tavernkit.server.storage.statements import change
from tavernkit.server.storage.tables import Chat

KEY = "file"
"""The key of the mark in the options of a session."""
UPLOADED = "uploaded"
"""The key of the mark of a session that came with an upload: nothing is written back for it."""
_SESSIONS = "chat-of-served"
_ITEMS = "item-of-save"
_CONVERSATIONS = "conversation-of-session"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileMark:
    """The versions of a session and its file when they were last in sync."""

    path: str
    """The file below the served folder; for a save, the id of the chat."""
    digest: str
    version: int
    """The version of the session."""
    skipped: int = 0
    """How many messages at the beginning of the file the session does not have."""
    owner: str = ""
    """For a save: the id of the character or group."""

    @classmethod
    def of(cls, chat: ChatState, key: str = KEY) -> FileMark | None:
        """Return the mark of a session; None if it has no file."""
        found = chat.options.get(key)
        if not is_object(found):
            return None
        values: dict[str, Any] = {**found}
        try:
            return cls(**values)
        except TypeError:
            return None

    def to_json(self) -> JsonObject:
        """Write the mark."""
        return {name: getattr(self, name) for name in ("path", "digest", "version", "skipped", "owner")}


def options_of_copy(chat: ChatState) -> JsonObject:
    """Return the options for a copy of a session: it has no file yet."""
    return {key: value for key, value in chat.options.items() if key not in (KEY, UPLOADED)}


def digest_of(content: bytes) -> str:
    """Return a digest of a file."""
    return hashlib.sha256(content).hexdigest()


def risu_digest(chat: RisuChat) -> str:
    """Return a digest of a chat of a save."""
    return digest_of(json_stringify(chat_json(chat)).encode("utf-8", "surrogatepass"))


async def set_mark(connection: AsyncConnection, chat: ChatState, mark: FileMark, *, key: str = KEY) -> None:
    """Store a mark. The version of the session stays the same, because the chat has not changed."""
    options: dict[str, Json] = {**chat.options, key: mark.to_json()}
    await connection.execute(*change(Chat, {"options": options}, id=chat.id))


async def note_session(connection: AsyncConnection, path: str, chat_id: str) -> None:
    """Record that a file was written for a session, so that it is not imported as another one."""
    await _note(connection, _SESSIONS, path, chat_id)


async def session_of(connection: AsyncConnection, path: str) -> str | None:
    """Return the session that a file was written for."""
    return await _read_mark(connection, _SESSIONS, path)


@dataclass(frozen=True, slots=True)
class ItemMark:
    """What something in a save or upload has become."""

    item_id: str
    digest: str
    """The digest of its file when it was imported."""


async def note_item(connection: AsyncConnection, name: str, mark: ItemMark) -> None:
    """Record what something in a save or upload has become, so that it is not imported as another item."""
    await _note(connection, _ITEMS, name, f"{mark.digest} {mark.item_id}")


async def item_of(connection: AsyncConnection, name: str) -> ItemMark | None:
    """Return what something in a save or upload has become."""
    digest, _, item_id = (await _read_mark(connection, _ITEMS, name) or "").partition(" ")
    return ItemMark(item_id, digest) if item_id else None


async def note_conversation(connection: AsyncConnection, chat_id: str, kept: JsonObject) -> None:
    """Record what a conversation keeps besides its session, such as its undo history."""
    await _note(connection, _CONVERSATIONS, chat_id, json.dumps(kept))


async def conversation_of(connection: AsyncConnection, chat_id: str) -> JsonObject:
    """Return what a conversation keeps besides its session."""
    found: object = json.loads(await _read_mark(connection, _CONVERSATIONS, chat_id) or "{}")
    return found if is_object(found) else {}


async def forget_conversation(connection: AsyncConnection, chat_id: str) -> None:
    """Remove what a conversation keeps besides its session."""
    if await _read_mark(connection, _CONVERSATIONS, chat_id) is not None:
        await delete_item(connection, FILE, file_id(_CONVERSATIONS, chat_id))


def is_mark(info: ItemInfo) -> bool:
    """Return True for an item that only records what belongs to sessions and files."""
    return info.kind == FILE and info.filename in [f"{index}.txt" for index in (_SESSIONS, _ITEMS, _CONVERSATIONS)]


async def _note(connection: AsyncConnection, index: str, name: str, value: str) -> None:
    await save_item(
        connection,
        FILE,
        name=name,
        platform="silly_tavern",
        file=value.encode(),
        filename=f"{index}.txt",
        item_id=file_id(index, name),
    )


async def _read_mark(connection: AsyncConnection, index: str, name: str) -> str | None:
    ref = (FILE, file_id(index, name))
    return (await item_file(connection, *ref)).decode() if await infos(connection, [ref]) else None
