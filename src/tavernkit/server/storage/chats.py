"""Chats and their lines: short operations inside a caller's transaction."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from sqlalchemy import and_, bindparam, delete, func, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from tavernkit._dataclass import replaced
from tavernkit._values import Json, JsonObject, same_start
from tavernkit.server.errors import ServiceError, not_found
from tavernkit.server.limits import MAX_MESSAGES, MAX_PAGE, MAX_SESSION_MESSAGES, UNREAD_STEP
from tavernkit.server.storage.database import advisory_lock
from tavernkit.server.storage.statements import change, fetch, fetch_one, insert_into, run, select_by, table_of
from tavernkit.server.storage.tables import Chat, Line

T = TypeVar("T")

COMPLETE, PARTIAL = "complete", "partial"
FOLDER = "folder"
"""The key of the data folder in the options of a chat."""


READ_AT_ONCE = 1000


def new_id() -> str:
    """Return a new id."""
    return os.urandom(16).hex()


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatLine:
    """A message of a chat."""

    id: str
    position: int
    role: str
    content: str
    native: JsonObject
    status: str = COMPLETE
    turn_id: str | None = None
    created_at: float = 0.0
    updated_at: float = 0.0
    _converted: object = field(default=None, init=False, repr=False, compare=False)
    _marks: frozenset[str] | None = field(default=None, init=False, repr=False, compare=False)

    def converted(self, convert: Callable[[JsonObject], T]) -> T:
        """Return the platform's message of the line, cached, so that it is not converted every turn.

        Args:
            convert: Makes a message, which must not be changed, from ``native``.
        """
        found = cast("T | None", self._converted)
        if found is None:
            found = convert(self.native)
            object.__setattr__(self, "_converted", found)
        return found

    @property
    def is_converted(self) -> bool:
        """Return True if the line was converted before."""
        return self._converted is not None

    @staticmethod
    def convert_all(lines: Sequence[ChatLine], convert: Callable[[JsonObject], T]) -> list[T]:
        """Return the messages of lines, without a call for each of the thousands that are cached.

        Args:
            lines: The lines.
            convert: As for ``converted()``.
        """
        made = [line._converted if line._converted is not None else line.converted(convert) for line in lines]  # noqa: SLF001  # of this class
        return cast("list[T]", made)

    @staticmethod
    def marked(lines: Sequence[ChatLine], keys: frozenset[str]) -> list[ChatLine]:
        """Return the lines whose ``native`` has one of these keys, looked up once for each line.

        Args:
            lines: The lines.
            keys: The keys, always the same for a line.
        """
        found = [line for line in lines if line._marks is None or line._marks]  # noqa: SLF001  # of this class
        for line in found:
            if line._marks is None:  # noqa: SLF001  # of this class
                object.__setattr__(line, "_marks", keys.intersection(line.native))
        return [line for line in found if line._marks]  # noqa: SLF001  # of this class

    @staticmethod
    def same_messages(lines: Sequence[ChatLine], messages: tuple[object, ...]) -> int:
        """Return how many leading lines still have their cached messages, at the same places."""
        return same_start(tuple([line._converted for line in lines]), messages)  # noqa: SLF001  # of this class


def new_line(role: str, content: str, native: JsonObject, *, status: str = COMPLETE) -> ChatLine:
    """Return a line that is not stored yet; it gets its position when stored."""
    return ChatLine(id=new_id(), position=-1, role=role, content=content, native=native, status=status)


_MOST_AT_ONCE = 500
"""How many lines one statement names: databases limit its values."""
_CHAT = (
    *("id", "owner", "external_id", "platform", "character", "group_id", "persona", "preset", "books", "details"),
    *("variables", "options", "version", "next_position", "turn_id", "lease_until", "created_at", "updated_at"),
)
_LINE = ("id", "position", "role", "content", "native", "status", "turn_id", "created_at", "updated_at")
_CHAT_COLUMNS = [table_of(Chat).c[name] for name in _CHAT]
_LAST_LINES = select_by(Line, _LINE, ("session_id",)).order_by(Line.position.desc()).limit(bindparam("most"))
_LINES_BEFORE = _LAST_LINES.where(Line.position < bindparam("before"))


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


async def read_lines(
    connection: AsyncConnection, chat_id: str, *, limit: int = MAX_MESSAGES, before: int | None = None
) -> list[ChatLine]:
    """Return the last lines of a chat, or the last before a position, oldest first."""
    by: dict[str, object] = {"session_id": chat_id, "most": limit}
    if before is None:
        rows = await fetch(connection, _LAST_LINES, by)
    else:
        rows = await fetch(connection, _LINES_BEFORE, {**by, "before": before})
    return [_line(row) for row in reversed(rows)]


async def read_all_lines(connection: AsyncConnection, chat_id: str) -> list[ChatLine]:
    """Return all lines of a chat; they are read in parts, so that other requests are served in between."""
    parts: list[list[ChatLine]] = []
    before: int | None = None
    while part := await read_lines(connection, chat_id, limit=READ_AT_ONCE, before=before):
        parts.append(part)
        before = part[0].position
        await asyncio.sleep(0)
    return [line for part in reversed(parts) for line in part]


async def read_history(connection: AsyncConnection, chat: ChatState) -> tuple[list[ChatLine], int]:
    """Return the lines of a chat that a turn reads, and how many lines before them it skips."""
    if chat.next_position <= MAX_MESSAGES:  # no chat has more lines than positions
        return await read_lines(connection, chat.id, limit=MAX_MESSAGES), 0
    total = await count_lines(connection, chat.id)
    unread = -(-max(total - MAX_MESSAGES, 0) // UNREAD_STEP) * UNREAD_STEP
    return await read_lines(connection, chat.id, limit=total - unread), unread


async def count_lines(connection: AsyncConnection, chat_id: str) -> int:
    """Return the number of lines of a chat."""
    query = select(func.count()).select_from(Line).where(Line.session_id == chat_id)
    return (await connection.execute(query)).scalar_one()


async def has_lines(connection: AsyncConnection, chat_id: str, line_ids: Sequence[str]) -> bool:
    """Return True if a chat has all of these lines."""
    for start in range(0, len(line_ids), _MOST_AT_ONCE):
        part = line_ids[start : start + _MOST_AT_ONCE]
        query = select(func.count()).select_from(Line).where(Line.session_id == chat_id, Line.id.in_(part))
        if (await connection.execute(query)).scalar_one() < len(part):
            return False
    return True


async def get_line(connection: AsyncConnection, chat_id: str, line_id: str) -> ChatLine:
    """Return a line of a chat by its id."""
    by = {"session_id": chat_id, "id": line_id}
    row = await fetch_one(connection, select_by(Line, _LINE, ("session_id", "id")), by)
    if row is None:
        raise not_found("message", line_id)
    return _line(row)


async def remove_lines(connection: AsyncConnection, chat_id: str, line: ChatLine, *, following: bool) -> None:
    """Remove a line, or everything from it on."""
    which = Line.position >= line.position if following else Line.id == line.id
    await connection.execute(delete(Line).where(Line.session_id == chat_id, which))


def too_long() -> ServiceError:
    """Return the error for a chat with the maximum number of messages."""
    return ServiceError(409, f"the session has {MAX_SESSION_MESSAGES} messages", code="session_too_long")


async def insert_lines(
    connection: AsyncConnection, chat_id: str, lines: Sequence[ChatLine], *, now: float, turn_id: str | None = None
) -> None:
    """Store lines that have positions."""
    if not lines:
        return
    rows = [
        {
            "id": line.id,
            "session_id": chat_id,
            "position": line.position,
            "turn_id": turn_id,
            "role": line.role,
            "content": line.content,
            "native": line.native,
            "status": line.status,
            "created_at": now,
            "updated_at": now,
        }
        for line in lines
    ]
    await run(connection, insert_into(Line), *rows)


async def move_lines(connection: AsyncConnection, lines: Sequence[ChatLine]) -> None:
    """Update lines with new positions and another turn."""
    now = time.time()
    for line in lines:
        values = {"position": line.position, "turn_id": line.turn_id, "updated_at": now}
        await run(connection, *change(Line, values, id=line.id))


def place_lines(chat: ChatState, old: Sequence[ChatLine], new: Sequence[ChatLine]) -> tuple[list[ChatLine], int]:
    """Assign positions to lines; return them and the next free one. If the order changed, all get new positions."""
    same = same_start(tuple(old), tuple(new))
    before = {line.id: line for line in old[same:]}
    position = chat.next_position
    if not (ordered := _in_order(new[same:], before)):
        same, before = 0, {line.id: line for line in old}
    placed = list(new[:same])
    for line in new[same:]:
        stored = before.get(line.id)
        if stored is not None and ordered:
            placed.append(line if line.position == stored.position else replaced(line, position=stored.position))
        else:
            placed.append(replaced(line, position=position))
            position += 1
    return placed, position


async def store_lines(
    connection: AsyncConnection,
    chat_id: str,
    old: Sequence[ChatLine],
    placed: Sequence[ChatLine],
    turn_id: str | None = None,
) -> None:
    """Replace the stored lines of a chat; lines are matched by id."""
    now = time.time()
    same = same_start(tuple(old), tuple(placed))
    old, placed = old[same:], placed[same:]
    before = {line.id: line for line in old}
    kept = {line.id for line in placed}
    gone = [line.id for line in old if line.id not in kept]
    for start in range(0, len(gone), _MOST_AT_ONCE):
        part = gone[start : start + _MOST_AT_ONCE]
        await connection.execute(delete(Line).where(Line.session_id == chat_id, Line.id.in_(part)))
    for line in placed:
        if line.id in before and line != before[line.id]:
            values = {name: getattr(line, name) for name in ("role", "content", "native", "status", "position")}
            await run(connection, *change(Line, {**values, "updated_at": now}, id=line.id))
    await insert_lines(
        connection, chat_id, [line for line in placed if line.id not in before], now=now, turn_id=turn_id
    )


def _in_order(new: Sequence[ChatLine], before: dict[str, ChatLine]) -> bool:
    """Return True if stored lines are in their old order and before all new ones."""
    places = [before[line.id].position if line.id in before else None for line in new]
    known = [place for place in places if place is not None]
    return known == sorted(known) and None not in places[: len(known)]


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


def _line(row: Sequence[Any]) -> ChatLine:
    line_id, position, role, content, native, status, turn_id, created_at, updated_at = row
    return ChatLine(
        id=line_id,
        position=position,
        role=role,
        content=content,
        native=native,
        status=status,
        turn_id=turn_id,
        created_at=created_at,
        updated_at=updated_at,
    )
