"""Chats, without their lines: short operations inside a caller's transaction."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import and_, delete, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from tavernkit._dataclass import replaced
from tavernkit._values import Json, JsonObject
from tavernkit.server.errors import ServiceError, not_found
from tavernkit.server.limits import MAX_PAGE
from tavernkit.server.storage.database import advisory_lock
from tavernkit.server.storage.lines import ChatLine, insert_lines
from tavernkit.server.storage.statements import change, fetch_one, insert_into, run, select_by, table_of
from tavernkit.server.storage.tables import Chat, Line, new_id

FOLDER = "folder"
"""The key of the data folder in the options of a chat."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Who talks with whom, by the ids of the library."""

    platform: str = "silly_tavern"
    character: str | None = None
    group: str | None = None
    persona: str | None = None
    preset: str | None = None
    books: tuple[str, ...] = ()
    folder: str | None = None
    """The imported data folder whose settings and files the chat uses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatState:
    """A chat without its lines."""

    id: str
    owner: str
    external_id: str
    selection: Selection
    details: JsonObject = field(default_factory=dict[str, Json])
    variables: JsonObject = field(default_factory=dict[str, Json])
    options: JsonObject = field(default_factory=dict[str, Json])
    version: int = 0
    next_position: int = 0
    turn_id: str | None = None
    lease_until: float = 0.0
    created_at: float = 0.0
    updated_at: float = 0.0

    def busy(self, now: float) -> bool:
        """True if a turn writes to it now."""
        return self.turn_id is not None and self.lease_until > now


_CHAT = (
    *("id", "owner", "external_id", "platform", "character", "group_id", "persona", "preset", "books", "details"),
    *("variables", "options", "version", "next_position", "turn_id", "lease_until", "created_at", "updated_at"),
)
_CHAT_COLUMNS = [table_of(Chat).c[name] for name in _CHAT]


async def find_chat(
    connection: AsyncConnection, owner: str, external_id: str, *, lock: bool = False
) -> ChatState | None:
    """Return a chat by the client's own id."""
    query = select_by(Chat, _CHAT, ("owner", "external_id"), lock=lock)
    row = await fetch_one(connection, query, {"owner": owner, "external_id": external_id})
    return None if row is None else _chat(row)


async def get_chat(
    connection: AsyncConnection, chat_id: str, *, owner: str | None = None, lock: bool = False
) -> ChatState:
    """Return a chat by its id; with an owner, only if it is theirs."""
    by = {"id": chat_id} if owner is None else {"id": chat_id, "owner": owner}
    row = await fetch_one(connection, select_by(Chat, _CHAT, tuple(by), lock=lock), by)
    if row is None:
        raise not_found("session", chat_id)
    return _chat(row)


async def list_chats(
    connection: AsyncConnection,
    owner: str | None,
    *,
    before: tuple[float, str] | None = None,
    limit: int = MAX_PAGE,
    chosen: Mapping[str, str] | None = None,
) -> list[ChatState]:
    """Return a page of chats, the latest first; ``before`` is the time and id of the previous page's last one.

    ``chosen`` are columns and their required values.
    """
    query = select(*_CHAT_COLUMNS).order_by(Chat.updated_at.desc(), Chat.id).limit(limit)
    for name, value in (chosen or {}).items():
        query = query.where(getattr(Chat, name) == value)
    if owner is not None:
        query = query.where(Chat.owner == owner)
    if before is not None:
        updated_at, chat_id = before
        same = and_(Chat.updated_at == updated_at, Chat.id > chat_id)
        query = query.where(or_(Chat.updated_at < updated_at, same))
    return [_chat(row) for row in (await connection.execute(query)).all()]


async def refuse_taken(connection: AsyncConnection, owner: str, external_id: str) -> None:
    """Raise if such a chat exists; it cannot be created elsewhere before the transaction ends."""
    await advisory_lock(connection, f"sessions/{owner}/{external_id}")
    if await find_chat(connection, owner, external_id) is not None:
        raise ServiceError(409, f"there is a session {external_id!r} already", code="session_exists")


async def create_chat(
    connection: AsyncConnection,
    owner: str,
    external_id: str,
    selection: Selection,
    lines: Sequence[ChatLine] = (),
    *,
    details: JsonObject | None = None,
    options: JsonObject | None = None,
) -> ChatState:
    """Store a new chat with its first lines; an existing one is returned unchanged, locked."""
    await advisory_lock(connection, f"sessions/{owner}/{external_id}")
    existing = await find_chat(connection, owner, external_id, lock=True)
    if existing is not None:
        return existing
    now = time.time()
    chat = ChatState(
        id=new_id(),
        owner=owner,
        external_id=external_id,
        selection=selection,
        details=details or {},
        options={**(options or {}), **({FOLDER: selection.folder} if selection.folder is not None else {})},
        next_position=len(lines),
        created_at=now,
        updated_at=now,
    )
    values: dict[str, object] = {
        "id": chat.id,
        "owner": owner,
        "external_id": external_id,
        "platform": selection.platform,
        "character": selection.character,
        "group_id": selection.group,
        "persona": selection.persona,
        "preset": selection.preset,
        "books": list(selection.books),
        "details": chat.details,
        "variables": {},
        "options": chat.options,
        "version": 0,
        "next_position": len(lines),
        "turn_id": None,
        "lease_until": 0.0,
        "created_at": now,
        "updated_at": now,
    }
    await run(connection, insert_into(Chat), values)
    await insert_lines(connection, chat.id, [replaced(line, position=at) for at, line in enumerate(lines)], now=now)
    return chat


async def update_chat(connection: AsyncConnection, chat: ChatState, **changes: object) -> None:
    """Change columns of a chat; its version increases."""
    values = {"version": chat.version + 1, "updated_at": time.time(), **changes}
    await run(connection, *change(Chat, values, id=chat.id))


async def end_turn(connection: AsyncConnection, chat: ChatState, **changes: object) -> bool:
    """Change a chat and release it; return False and change nothing if another turn has taken it over."""
    values = {"turn_id": None, "lease_until": 0.0, "version": chat.version + 1, "updated_at": time.time(), **changes}
    return await run(connection, *change(Chat, values, id=chat.id, turn_id=chat.turn_id, version=chat.version)) == 1


async def clear_chat(connection: AsyncConnection, chat: ChatState, details: JsonObject) -> None:
    """Remove all lines of a chat, before others replace them.

    Args:
        connection: The database.
        chat: The chat.
        details: The platform's new data.
    """
    await connection.execute(delete(Line).where(Line.session_id == chat.id))
    await update_chat(connection, chat, details=details, variables={}, next_position=0)


async def delete_chat(connection: AsyncConnection, chat: ChatState) -> None:
    """Remove a chat with everything in it."""
    await connection.execute(delete(Chat).where(Chat.id == chat.id))


def _chat(row: Sequence[Any]) -> ChatState:
    found = dict(zip(_CHAT, row, strict=True))
    folder = found["options"].get(FOLDER)
    selection = Selection(
        platform=found.pop("platform"),
        character=found.pop("character"),
        group=found.pop("group_id"),
        persona=found.pop("persona"),
        preset=found.pop("preset"),
        books=tuple(str(book) for book in found.pop("books")),
        folder=folder if isinstance(folder, str) else None,
    )
    return ChatState(selection=selection, **found)
