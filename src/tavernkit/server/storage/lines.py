"""The lines of chats: short operations inside a caller's transaction."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar, cast

from sqlalchemy import bindparam, delete, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from tavernkit._dataclass import replaced
from tavernkit._values import JsonObject, same_start
from tavernkit.server.errors import ServiceError, not_found
from tavernkit.server.limits import MAX_MESSAGES, MAX_SESSION_MESSAGES, UNREAD_STEP
from tavernkit.server.storage.statements import change, fetch, fetch_one, insert_into, run, select_by
from tavernkit.server.storage.tables import Line, new_id

if TYPE_CHECKING:
    from tavernkit.server.storage.chats import ChatState

T = TypeVar("T")

COMPLETE, PARTIAL = "complete", "partial"

READ_AT_ONCE = 1000


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
_LINE = ("id", "position", "role", "content", "native", "status", "turn_id", "created_at", "updated_at")
_LAST_LINES = select_by(Line, _LINE, ("session_id",)).order_by(Line.position.desc()).limit(bindparam("most"))
_LINES_BEFORE = _LAST_LINES.where(Line.position < bindparam("before"))


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
