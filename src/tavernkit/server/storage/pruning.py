"""Removes old rows."""

from __future__ import annotations

from sqlalchemy import delete, select
from sqlalchemy.ext.asyncio import AsyncConnection

from tavernkit.server.storage.tables import Job, Turn


async def prune(connection: AsyncConnection, table: type[Turn | Job], before: float, *, limit: int) -> int:
    """Remove some rows that nobody has worked on since; gives how many.

    What runs has a lease that is younger. Rows that somebody has locked, to take up a failed turn again, are left.
    """
    # Both times are later than the first one, which alone has an index: it never changes, so a turn's end costs none.
    old = (table.created_at < before, table.updated_at < before, table.lease_until < before)
    query = select(table.id).where(*old).order_by(table.created_at).limit(limit).with_for_update(skip_locked=True)
    ids = [row[0] for row in (await connection.execute(query)).all()]
    if ids:
        await connection.execute(delete(table).where(table.id.in_(ids)))
    return len(ids)
