"""Changes of stored chats by their owners: edit, delete, swipe, branch."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TypeAlias, TypeVar

from sqlalchemy.ext.asyncio import AsyncConnection

from tavernkit._values import JsonObject
from tavernkit.server.errors import ServiceError
from tavernkit.server.keys import Client
from tavernkit.server.library import RISU_AI
from tavernkit.server.storage import chats
from tavernkit.server.storage.chats import ChatLine, ChatState
from tavernkit.server.storage.database import Database
from tavernkit.server.swipes import swipes_of, with_text

T = TypeVar("T")

COPIED_AT_ONCE = 1000
"""Messages of a branch that are read and written together."""


def owned_by(client: Client) -> str | None:
    """Whose chats a client may see; nothing means everybody's."""
    return None if client.may("admin") else client.owner


Rewrite: TypeAlias = Callable[[AsyncConnection, ChatState, ChatLine, T], Awaitable[tuple[ChatLine, JsonObject]]]
"""Gives a message with another text or swipe, as the platform stores it, and the chat's variables."""


async def edit_message(
    database: Database, client: Client, chat_id: str, message_id: str, content: str, rewrite: Rewrite[str]
) -> ChatLine:
    """Replace the text of a message."""
    async with _editing(database, client, chat_id, message_id) as (connection, chat, line):
        changed, variables = await rewrite(connection, chat, line, content)
        return await _store(connection, chat, line, changed, variables={**chat.variables, "local": variables})


async def remove_messages(
    database: Database, client: Client, chat_id: str, message_id: str, *, following: bool
) -> None:
    """Remove a message, or everything from it on."""
    async with _editing(database, client, chat_id, message_id) as (connection, chat, line):
        await chats.remove_lines(connection, chat.id, line, following=following)
        await chats.update_chat(connection, chat)


async def pick_swipe(
    database: Database, client: Client, chat_id: str, message_id: str, swipe: int, rewrite: Rewrite[int]
) -> ChatLine:
    """Show another of a message's replies."""
    async with _editing(database, client, chat_id, message_id) as (connection, chat, line):
        found = swipes_of(line.native)
        if found is None or swipe >= len(found[0]):
            raise ServiceError(422, f"the message has no swipe {swipe}", code="no_such_swipe", param="swipe")
        changed, variables = await rewrite(connection, chat, line, swipe)
        return await _store(connection, chat, line, changed, variables={**chat.variables, "local": variables})


async def branch_chat(
    database: Database, client: Client, chat_id: str, message_id: str, external_id: str, *, marked: bool = False
) -> ChatState:
    """A new chat with everything up to a message, the state as it is now included.

    Args:
        database: The database.
        client: Who asks.
        chat_id: The chat.
        message_id: The last message of the branch.
        external_id: What the client knows the new chat by.
        marked: Whether the branch says where it came from, if its platform does so.
    """
    async with database.write() as connection:
        chat = await chats.get_chat(connection, chat_id, owner=owned_by(client))
        last = await chats.get_line(connection, chat_id, message_id)
        following = last.position + 1
        await chats.refuse_taken(connection, chat.owner, external_id)
        made = await chats.create_chat(connection, chat.owner, external_id, chat.selection, options=chat.options)
        details, added = _marked(chat, last) if marked and chat.selection.platform == RISU_AI else (chat.details, [])
        changes: dict[str, object] = {"details": details, "variables": chat.variables}
        await chats.update_chat(connection, made, next_position=following + len(added), **changes)
        before, now = following, time.time()
        await chats.insert_lines(connection, made.id, added, now=now)
        while lines := await chats.read_lines(connection, chat_id, limit=COPIED_AT_ONCE, before=before):
            copies = [replace(line, id=chats.new_id()) for line in lines]
            await chats.insert_lines(connection, made.id, copies, now=now)
            before = lines[0].position
            await asyncio.sleep(0)
        return await chats.get_chat(connection, made.id)


def _marked(chat: ChatState, last: ChatLine) -> tuple[JsonObject, list[ChatLine]]:
    """The details of a branch of RisuAI's, and the line that ends it: its name and where it came from."""
    from tavernkit.server.talks import risu_ai_lines

    own, name = chat.details.get("id") or chat.id, str(chat.details.get("name") or chat.external_id)
    comment = risu_ai_lines.comment_line(str(own), name, str(last.native.get("chatId") or last.id))
    details: JsonObject = {**chat.details, "name": risu_ai_lines.branch_name(name)}
    return details, [replace(comment, position=last.position + 1)]


@asynccontextmanager
async def _editing(
    database: Database, client: Client, chat_id: str, message_id: str
) -> AsyncGenerator[tuple[AsyncConnection, ChatState, ChatLine]]:
    async with database.write() as connection:
        chat = await chats.get_chat(connection, chat_id, owner=owned_by(client), lock=True)
        if chat.busy(time.time()):
            raise ServiceError(409, "a turn of this session is running", code="session_busy", retry_after=1)
        yield connection, chat, await chats.get_line(connection, chat_id, message_id)


async def _store(
    connection: AsyncConnection, chat: ChatState, line: ChatLine, changed: ChatLine, **columns: object
) -> ChatLine:
    changed = replace(changed, status=chats.COMPLETE)
    await chats.store_lines(connection, chat.id, [line], [changed])
    await chats.update_chat(connection, chat, **columns)
    return changed


def with_content(chat: ChatState, line: ChatLine, native: JsonObject, content: str) -> ChatLine:
    """The line with another text; the swipe that is shown follows it.

    Args:
        chat: Its chat, whose platform says where the text is kept.
        line: The line.
        native: The platform's object of the line.
        content: The text.
    """
    if "metadata" in native:
        return replace(line, content=content, native={**native, "content": content})
    key = "data" if chat.selection.platform == RISU_AI else "mes"
    return replace(line, content=content, native={**with_text(native, content), key: content})
