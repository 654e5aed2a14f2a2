"""Turns: who writes to a chat, and the outcome of requests."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import delete
from sqlalchemy.ext.asyncio import AsyncConnection

from tavernkit._values import Json, JsonObject, is_list, is_object
from tavernkit.server.storage.chats import ChatState
from tavernkit.server.storage.database import advisory_lock
from tavernkit.server.storage.statements import change, fetch, fetch_one, insert_into, run, select_by
from tavernkit.server.storage.tables import Chat, GlobalVariables, Turn

RUNNING, DONE, PARTIAL, FAILED = "running", "done", "partial", "failed"

SAID = "said"
"""The key of a running turn's text so far."""


@dataclass(frozen=True, slots=True)
class TurnState:
    """A stored turn."""

    id: str
    session_id: str | None
    fingerprint: str
    kind: str
    status: str
    lease_until: float
    message_id: str | None
    response: JsonObject

    def busy(self, now: float) -> bool:
        """True if a process is working on it."""
        return self.status == RUNNING and self.lease_until > now


_TURN = ("id", "session_id", "fingerprint", "kind", "status", "lease_until", "message_id", "response")
_LAST_OF_MESSAGE = select_by(Turn, _TURN, ("session_id", "message_id")).order_by(Turn.created_at.desc()).limit(1)
_GLOBALS = select_by(GlobalVariables, ("name", "value"), ("owner", "platform"))


async def turn_by_key(connection: AsyncConnection, owner: str, key: str) -> TurnState | None:
    """Return the turn of an idempotency key."""
    query = select_by(Turn, _TURN, ("owner", "idempotency_key"), lock=True)
    return _state(await fetch_one(connection, query, {"owner": owner, "idempotency_key": key}))


async def turn_of_message(connection: AsyncConnection, session_id: str, message_id: str) -> TurnState | None:
    """Return the last turn that was started with a message."""
    by = {"session_id": session_id, "message_id": message_id}
    return _state(await fetch_one(connection, _LAST_OF_MESSAGE, by))


async def begin_turn(connection: AsyncConnection, turn_id: str, **values: object) -> None:
    """Store a new turn."""
    now = time.time()
    row: dict[str, object] = {
        "status": RUNNING,
        "response": {},
        "error": None,
        "reply_id": None,
        "created_at": now,
        "updated_at": now,
    }
    await run(connection, insert_into(Turn), {"id": turn_id, **row, **values})


async def update_turn(connection: AsyncConnection, turn_id: str, **values: object) -> None:
    """Change a turn."""
    await run(connection, *change(Turn, {"updated_at": time.time(), **values}, id=turn_id))


async def store_text_so_far(connection: AsyncConnection, turn_id: str, said: list[JsonObject]) -> None:
    """Store the text so far of a running turn."""
    values = {"response": {SAID: said}, "updated_at": time.time()}
    await run(connection, *change(Turn, values, id=turn_id, status=RUNNING))


async def text_of_dead_turn(connection: AsyncConnection, turn_id: str) -> tuple[str, list[JsonObject]]:
    """Return the kind of a turn whose process has died, and its text so far."""
    row = await fetch_one(connection, select_by(Turn, ("kind", "response"), ("id",)), {"id": turn_id})
    if row is None:
        return "", []
    said = row[1].get(SAID) if is_object(row[1]) else None
    return row[0], [each for each in said if is_object(each) and each.get("text")] if is_list(said) else []


async def fail_turn(connection: AsyncConnection, turn_id: str, error: str) -> None:
    """Mark a turn without a process as failed."""
    values = {"status": FAILED, "error": error, "updated_at": time.time()}
    await run(connection, *change(Turn, values, id=turn_id, status=RUNNING))


async def renew(connection: AsyncConnection, turn_id: str, chat: ChatState | None, until: float) -> bool:
    """Renew a turn's lease; return False if another turn has taken over. The chat is locked first, as everywhere."""
    if chat is not None:
        own = {"id": chat.id, "turn_id": turn_id, "version": chat.version}
        held = await run(connection, *change(Chat, {"lease_until": until}, **own))
        if held != 1:
            return False
    return await run(connection, *change(Turn, {"lease_until": until}, id=turn_id, status=RUNNING)) == 1


async def read_globals(connection: AsyncConnection, owner: str, platform: str) -> JsonObject:
    """Return the variables that an owner's chats share."""
    rows = await fetch(connection, _GLOBALS, {"owner": owner, "platform": platform})
    return {name: value["value"] for name, value in rows}


async def write_globals(
    connection: AsyncConnection, owner: str, platform: str, before: JsonObject, after: JsonObject
) -> None:
    """Store a turn's changes of these variables, without losing those of other turns."""
    changed = [name for name in {**before, **after} if before.get(name, _MISSING) != after.get(name, _MISSING)]
    if not changed:
        return
    # Two chats of an owner may end turns at once, which could cause a deadlock.
    await advisory_lock(connection, f"variables/{owner}/{platform}")
    await connection.execute(
        delete(GlobalVariables).where(
            GlobalVariables.owner == owner, GlobalVariables.platform == platform, GlobalVariables.name.in_(changed)
        )
    )
    rows = [
        {"owner": owner, "platform": platform, "name": name, "value": {"value": after[name]}}
        for name in changed
        if name in after
    ]
    if rows:
        await run(connection, insert_into(GlobalVariables), *rows)


_MISSING: Json = {"\0": None}


def _state(row: Sequence[Any] | None) -> TurnState | None:
    return None if row is None else TurnState(*row)
