"""Sessions as files of the platforms they belong to."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy.ext.asyncio import AsyncConnection

from tavernkit import risu_ai
from tavernkit import silly_tavern as st
from tavernkit._values import Json, JsonObject, is_object
from tavernkit.errors import TavernKitError
from tavernkit.risu_ai._files.chat_file import write_chats
from tavernkit.server.library import RISU_AI
from tavernkit.server.limits import MAX_SESSION_MESSAGES
from tavernkit.server.storage import chats
from tavernkit.server.storage.chats import ChatLine, ChatState
from tavernkit.server.storage.items import Kind, item_info, slug


async def chat_file(connection: AsyncConnection, chat: ChatState) -> tuple[str, bytes]:
    """Return a session as SillyTavern's JSONL or RisuAI's JSON, with a file name."""
    lines = await chats.read_lines(connection, chat.id, limit=MAX_SESSION_MESSAGES * 2)
    name = await _name(connection, chat)
    stem = f"{slug(name) or 'chat'}-{slug(chat.external_id) or chat.id}"[:100]
    if chat.selection.platform == RISU_AI:
        return f"{stem}.json", _risu_chat(chat, name, lines)
    return f"{stem}.jsonl", _jsonl(chat, name, lines)


def _jsonl(chat: ChatState, name: str, lines: Sequence[ChatLine]) -> bytes:
    messages, metadata = stored_messages(chat, lines)
    user = next((message.name for message in messages if message.is_user), "User")
    file = st.ChatFile(messages=messages, metadata=metadata, header={"user_name": user, "character_name": name})
    return file.dumps().encode("utf-8", "replace")


def stored_messages(chat: ChatState, lines: Sequence[ChatLine]) -> tuple[tuple[st.ChatMessage, ...], st.ChatMetadata]:
    """Return the messages and the metadata of a session in SillyTavern's format.

    Args:
        chat: The session.
        lines: Its lines.
    """
    details: JsonObject = {**chat.details}
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


def _variables(chat: ChatState) -> dict[str, Json]:
    found = chat.variables.get("local")
    return found if is_object(found) else {}


async def _name(connection: AsyncConnection, chat: ChatState) -> str:
    selection = chat.selection
    kind: Kind = "group" if selection.group else "character"
    try:
        return (await item_info(connection, kind, selection.group or selection.character or "")).name
    except TavernKitError:
        return selection.group or selection.character or "chat"
