"""Sessions and files: a session as a file of its platform, and which file it is kept in sync with.

A session may belong to a chat of a served folder or save. Its mark says which versions of both were the same.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from tavernkit import risu_ai
from tavernkit import silly_tavern as st
from tavernkit._text.js_values import json_stringify
from tavernkit._values import Json, JsonObject, is_mapping, is_object, thaw_object
from tavernkit.errors import TavernKitError
from tavernkit.risu_ai import RisuChat
from tavernkit.risu_ai._files.chat_file import chat_json, write_chats
from tavernkit.server.adapters.silly_tavern_lines import opened_again
from tavernkit.server.library.library import RISU_AI
from tavernkit.server.library.stored_folders import FILE, file_id
from tavernkit.server.storage.chats import ChatState
from tavernkit.server.storage.items import ItemInfo, Kind, delete_item, infos, item_file, item_info, save_item, slug
from tavernkit.server.storage.lines import COMPLETE, PARTIAL, ChatLine, new_line, read_all_lines
from tavernkit.server.storage.statements import change
from tavernkit.server.storage.tables import Chat

KEY = "file"
"""The key of the mark in the options of a session."""
UPLOADED = "uploaded"
"""The key of the mark of a session that came with an upload: nothing is written back for it."""
_SESSIONS = "chat-of-served"
_ITEMS = "item-of-save"
_CONVERSATIONS = "conversation-of-session"


async def chat_file(connection: AsyncConnection, chat: ChatState) -> tuple[str, bytes]:
    """Return a session as SillyTavern's JSONL or RisuAI's JSON, with a file name. A long one takes seconds to write."""
    lines, name = await read_all_lines(connection, chat.id), await name_of(connection, chat)
    stem = f"{slug(name) or 'chat'}-{slug(chat.external_id) or chat.id}"[:100]
    if chat.selection.platform == RISU_AI:
        return f"{stem}.json", await asyncio.to_thread(_risu_chat, chat, name, lines)
    return f"{stem}.jsonl", await asyncio.to_thread(silly_tavern_file, chat, name, lines)


def silly_tavern_file(chat: ChatState, name: str, lines: Sequence[ChatLine], header: JsonObject | None = None) -> bytes:
    """Return a session as SillyTavern's JSONL.

    Args:
        chat: The session.
        name: The name of the character or group.
        lines: The lines of the session.
        header: More keys of the first line.
    """
    messages, metadata = stored_messages(chat, lines)
    user = next((message.name for message in messages if message.is_user), "User")
    first = {"user_name": user, "character_name": name, **(header or {})}
    return st.ChatFile(messages=messages, metadata=metadata, header=first).dumps().encode("utf-8", "replace")


def stored_messages(chat: ChatState, lines: Sequence[ChatLine]) -> tuple[tuple[st.ChatMessage, ...], st.ChatMetadata]:
    """Return the messages and the metadata of a session in SillyTavern's format.

    Args:
        chat: The session.
        lines: Its lines.
    """
    details = {**opened_again(chat.details)}
    if variables := _variables(chat):
        details["variables"] = variables
    return tuple(_message(line) for line in lines), st.ChatMetadata.from_json(details)


def _message(line: ChatLine) -> st.ChatMessage:
    """Return a line; tool calls and results, for which SillyTavern has no lines, become hidden ones."""
    if "role" not in line.native:
        return st.ChatMessage.from_json(line.native)
    name = {"user": "User", "assistant": "Assistant"}.get(line.role, "System")
    hidden = line.role == "tool" or not line.content
    return st.ChatMessage.from_json(
        {"name": name, "mes": line.content, "is_user": line.role == "user", "is_system": hidden, "extra": {}}
    )


def _risu_chat(chat: ChatState, name: str, lines: Sequence[ChatLine]) -> bytes:
    return write_chats(risu_ai.ChatFile((stored_risu_chat(chat, name, lines),), ()))


def stored_risu_chat(
    chat: ChatState, name: str, lines: Sequence[ChatLine], *, chat_id: str | None = None
) -> risu_ai.RisuChat:
    """Return a session in RisuAI's format.

    Args:
        chat: The session.
        name: What the chat is called.
        lines: Its lines.
        chat_id: Its id in RisuAI; the session's own by default.
    """
    raw: JsonObject = {**chat.details, "name": name}
    if chat_id is not None:
        raw["id"] = chat_id
    raw["message"] = [line.native for line in lines if "metadata" not in line.native]
    if variables := _variables(chat):
        raw["scriptstate"] = {f"${key}": value for key, value in variables.items()}
    return risu_ai.RisuChat.from_json(raw)


def silly_tavern_line(message: st.ChatMessage) -> ChatLine:
    """Return a message of a SillyTavern chat as a new line."""
    role = "user" if message.is_user else "system" if message.narrator else "assistant"
    own = message.extra.get("tavernkit")
    partial = is_mapping(own) and bool(own.get("partial"))
    return new_line(role, message.mes, message.to_json(), status=PARTIAL if partial else COMPLETE)


def risu_ai_line(message: risu_ai.RisuMessage) -> ChatLine:
    """Return a message of a RisuAI chat as a new line."""
    native = thaw_object(message.to_json())
    line = new_line("user" if message.role == "user" else "assistant", message.data, native)
    return line if native.get("chatId") else replace(line, native={**native, "chatId": line.id})


def _variables(chat: ChatState) -> dict[str, Json]:
    found = chat.variables.get("local")
    return found if is_object(found) else {}


async def name_of(connection: AsyncConnection, chat: ChatState) -> str:
    """Return the name of a session's character or group; its id if it is gone."""
    selection = chat.selection
    kind: Kind = "group" if selection.group else "character"
    try:
        return (await item_info(connection, kind, selection.group or selection.character or "")).name
    except TavernKitError:
        return selection.group or selection.character or "chat"


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
