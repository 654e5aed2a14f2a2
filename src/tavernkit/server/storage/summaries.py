"""Leases for the summary of a session: one process at a time."""

from __future__ import annotations

from functools import cache
from typing import Any

from sqlalchemy import Executable, bindparam, delete
from sqlalchemy.ext.asyncio import AsyncConnection

from tavernkit.server.storage.statements import change, table_of, upsert_into
from tavernkit.server.storage.tables import Summary


async def claim(connection: AsyncConnection, session_id: str, *, now: float, until: float) -> int | None:
    """Claim the work on a session's summary; return how often it failed, or None if another process has it."""
    statement = _claiming(on_sqlite=connection.dialect.name == "sqlite")
    row = {"session_id": session_id, "lease_until": until, "failures": 0, "now": now}
    found = (await connection.execute(statement, row)).one_or_none()
    return None if found is None else int(found[0])


async def release(connection: AsyncConnection, session_id: str) -> None:
    """Release the claim after success, or if there is nothing to do."""
    await connection.execute(delete(Summary).where(Summary.session_id == session_id))


async def postpone(connection: AsyncConnection, session_id: str, *, failures: int, until: float) -> None:
    """Postpone the work after a failure."""
    await connection.execute(*change(Summary, {"failures": failures, "lease_until": until}, session_id=session_id))


@cache
def _claiming(*, on_sqlite: bool) -> Executable:
    table = table_of(Summary)
    free = table.c.lease_until <= bindparam("now")
    values: dict[str, Any] = {each.name: bindparam(each.name) for each in table.columns}
    made = upsert_into(Summary, on_sqlite=on_sqlite).values(values)
    return made.on_conflict_do_update(
        index_elements=["session_id"], set_={"lease_until": made.excluded.lease_until}, where=free
    ).returning(table.c.failures)
