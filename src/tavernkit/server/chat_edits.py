"""Changes of stored chats by their owners: edit, delete, swipe, branch."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TypeAlias

from sqlalchemy.ext.asyncio import AsyncConnection

from tavernkit.server.errors import ServiceError, not_found
from tavernkit.server.keys import Client
from tavernkit.server.library import RISU_AI
from tavernkit.server.storage import chats
from tavernkit.server.storage.chats import ChatLine, ChatState
from tavernkit.server.storage.database import Database
from tavernkit.server.swipes import swipes_of, with_swipe, with_text
from tavernkit.values import JsonObject


def owned_by(client: Client) -> str | None:
    """Whose chats a client may see; nothing means everybody's."""
    return None if client.may("admin") else client.owner


Rewrite: TypeAlias = Callable[[AsyncConnection, ChatState, ChatLine, str], Awaitable[str]]
"""What a platform stores of an edited text."""


async def edit_message(
    database: Database, client: Client, chat_id: str, message_id: str, content: str, rewrite: Rewrite
) -> ChatLine:
    """Give a message another text."""
    async with _editing(database, client, chat_id) as (connection, chat, lines):
        line = _line(lines, message_id)
        content = await rewrite(connection, chat, line, content)
        changed = replace(line, content=content, native=_native(chat, line, content), status=chats.COMPLETE)
        await _store(connection, chat, lines, [changed if each.id == message_id else each for each in lines])
    return changed


async def remove_messages(
    database: Database, client: Client, chat_id: str, message_id: str, *, following: bool
) -> None:
    """Remove a message, or everything from it on."""
    async with _editing(database, client, chat_id) as (connection, chat, lines):
        place = lines.index(_line(lines, message_id))
        rest = [] if following else lines[place + 1 :]
        await _store(connection, chat, lines, [*lines[:place], *rest])


async def pick_swipe(database: Database, client: Client, chat_id: str, message_id: str, swipe: int) -> ChatLine:
    """Show another of a message's replies."""
    async with _editing(database, client, chat_id) as (connection, chat, lines):
        line = _line(lines, message_id)
        found = swipes_of(line.native)
        if found is None or swipe >= len(found[0]):
            raise ServiceError(422, f"the message has no swipe {swipe}", code="no_such_swipe", param="swipe")
        content = found[0][swipe]
        line = replace(line, native=with_swipe(line.native, swipe))
        native = _native(chat, line, content)
        changed = replace(line, content=content, native=native, status=chats.COMPLETE)
        await _store(connection, chat, lines, [changed if each.id == message_id else each for each in lines])
    return changed


async def branch_chat(database: Database, client: Client, chat_id: str, message_id: str, external_id: str) -> ChatState:
    """A new chat with everything up to a message, the state as it is now included."""
    async with database.write() as connection:
        chat = await chats.get_chat(connection, chat_id, owner=owned_by(client))
        lines = await chats.read_lines(connection, chat_id)
        kept = lines[: lines.index(_line(lines, message_id)) + 1]
        await chats.refuse_taken(connection, chat.owner, external_id)
        copies = [replace(line, id=chats.new_id()) for line in kept]
        made = await chats.create_chat(connection, chat.owner, external_id, chat.selection, copies)
        await chats.update_chat(connection, made, details=chat.details, variables=chat.variables)
        return await chats.get_chat(connection, made.id)


@asynccontextmanager
async def _editing(
    database: Database, client: Client, chat_id: str
) -> AsyncGenerator[tuple[AsyncConnection, ChatState, list[ChatLine]]]:
    async with database.write() as connection:
        chat = await chats.get_chat(connection, chat_id, owner=owned_by(client), lock=True)
        if chat.busy(time.time()):
            raise ServiceError(409, "a turn of this session is running", code="session_busy", retry_after=1)
        yield connection, chat, await chats.read_lines(connection, chat_id)


async def _store(connection: AsyncConnection, chat: ChatState, old: list[ChatLine], new: list[ChatLine]) -> None:
    placed, position = chats.place_lines(chat, old, new)
    await chats.store_lines(connection, chat.id, old, placed)
    await chats.update_chat(connection, chat, next_position=position)


def _line(lines: list[ChatLine], message_id: str) -> ChatLine:
    found = next((line for line in lines if line.id == message_id), None)
    if found is None:
        raise not_found("message", message_id)
    return found


def _native(chat: ChatState, line: ChatLine, content: str) -> JsonObject:
    """The platform's object with another text; the swipe that is shown follows it."""
    if "metadata" in line.native:
        return {**line.native, "content": content}
    native = with_text(line.native, content)
    return {**native, ("data" if chat.selection.platform == RISU_AI else "mes"): content}
