"""Which file of a served folder or save a session belongs to, and how both were when they were last the same."""

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
"""Where the options of a session have its mark."""
_INDEX = "chat-of-served"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileMark:
    """What a session and its file were when they were last the same."""

    path: str
    """The file below the served folder; of a save, the id of the chat."""
    digest: str
    version: int
    """The version of the session."""
    skipped: int = 0
    """How many messages at the beginning of the file the session does not have."""
    owner: str = ""
    """Whose chat of a save it is: the id of the character or group."""

    @classmethod
    def of(cls, chat: ChatState) -> FileMark | None:
        """The mark of a session; None if it belongs to no file."""
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
    """What changes when a file does."""
    return hashlib.sha256(content).hexdigest()


def risu_digest(chat: RisuChat) -> str:
    """What changes when a chat of a save does."""
    return digest_of(json_stringify(chat_json(chat)).encode("utf-8", "surrogatepass"))


async def set_mark(connection: AsyncConnection, chat: ChatState, mark: FileMark) -> None:
    """Store a mark. The version of the session stays: nothing of the chat has changed."""
    options: dict[str, Json] = {**chat.options, KEY: mark.to_json()}
    await connection.execute(*change(Chat, {"options": options}, id=chat.id))


async def note_session(connection: AsyncConnection, path: str, chat_id: str) -> None:
    """Remember that a file was written for a session, so that it is not imported as another one."""
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
    """The session that a file was written for."""
    ref = (FILE, file_id(_INDEX, path))
    return (await item_file(connection, *ref)).decode() if await infos(connection, [ref]) else None
