"""Sessions as files of the platforms they belong to, and messages of such files as lines of sessions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy.ext.asyncio import AsyncConnection

from tavernkit import risu_ai
from tavernkit import silly_tavern as st
from tavernkit._values import Json, JsonObject, is_mapping, is_object, thaw_object
from tavernkit.errors import TavernKitError
from tavernkit.risu_ai._files.chat_file import write_chats
from tavernkit.server.adapters.silly_tavern_lines import opened_again
from tavernkit.server.library.library import RISU_AI
from tavernkit.server.limits import MAX_SESSION_MESSAGES
from tavernkit.server.storage import chats
from tavernkit.server.storage.chats import COMPLETE, PARTIAL, ChatLine, ChatState, new_line
from tavernkit.server.storage.items import Kind, item_info, slug


async def chat_file(connection: AsyncConnection, chat: ChatState) -> tuple[str, bytes]:
    """Return a session as SillyTavern's JSONL or RisuAI's JSON, with a file name."""
    lines = await chats.read_lines(connection, chat.id, limit=MAX_SESSION_MESSAGES * 2)
    name = await _name(connection, chat)
    stem = f"{slug(name) or 'chat'}-{slug(chat.external_id) or chat.id}"[:100]
    if chat.selection.platform == RISU_AI:
        return f"{stem}.json", _risu_chat(chat, name, lines)
    return f"{stem}.jsonl", silly_tavern_file(chat, name, lines)


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


async def _name(connection: AsyncConnection, chat: ChatState) -> str:
    selection = chat.selection
    kind: Kind = "group" if selection.group else "character"
    try:
        return (await item_info(connection, kind, selection.group or selection.character or "")).name
    except TavernKitError:
        return selection.group or selection.character or "chat"
