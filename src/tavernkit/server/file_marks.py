"""Links a session to its file in a served folder or save, with both versions when they were last in sync."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from tavernkit._text.js_values import json_stringify
from tavernkit._values import Json, JsonObject, is_object
from tavernkit.risu_ai import RisuChat
from tavernkit.risu_ai._files.chat_file import chat_json
from tavernkit.server.storage.chats import ChatState
from tavernkit.server.storage.items import infos, item_file, save_item
from tavernkit.server.storage.statements import change
from tavernkit.server.storage.tables import Chat
from tavernkit.server.stored_folders import FILE, file_id

KEY = "file"
"""The key of the mark in the options of a session."""
_INDEX = "chat-of-served"


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
    def of(cls, chat: ChatState) -> FileMark | None:
        """Return the mark of a session; None if it has no file."""
        found = chat.options.get(KEY)
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


def digest_of(content: bytes) -> str:
    """Return a digest of a file."""
    return hashlib.sha256(content).hexdigest()


def risu_digest(chat: RisuChat) -> str:
    """Return a digest of a chat of a save."""
    return digest_of(json_stringify(chat_json(chat)).encode("utf-8", "surrogatepass"))


async def set_mark(connection: AsyncConnection, chat: ChatState, mark: FileMark) -> None:
    """Store a mark. The version of the session stays the same, because the chat has not changed."""
    options: dict[str, Json] = {**chat.options, KEY: mark.to_json()}
    await connection.execute(*change(Chat, {"options": options}, id=chat.id))


async def note_session(connection: AsyncConnection, path: str, chat_id: str) -> None:
    """Record that a file was written for a session, so that it is not imported as another one."""
    item_id = file_id(_INDEX, path)
    await save_item(
        connection,
        FILE,
        name=path,
        platform="silly_tavern",
        file=chat_id.encode(),
        filename="session.txt",
        item_id=item_id,
    )


async def session_of(connection: AsyncConnection, path: str) -> str | None:
    """Return the session that a file was written for."""
    ref = (FILE, file_id(_INDEX, path))
    return (await item_file(connection, *ref)).decode() if await infos(connection, [ref]) else None
