"""Removes old rows."""

from __future__ import annotations

from sqlalchemy import ColumnElement, delete, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from tavernkit.server.storage.tables import Job, Turn, Usage


async def prune(connection: AsyncConnection, table: type[Turn | Job], before: float, *, limit: int) -> int:
    """Remove some rows that are unused since; returns how many.

    What runs has a lease that is younger. Rows that somebody has locked, to take up a failed turn again, are left.
    """
    query = (
        select(table.id)
        .where(*_old(table, before))
        .order_by(table.created_at)
        .limit(limit)
        .with_for_update(skip_locked=True)
    )
    ids = [row[0] for row in (await connection.execute(query)).all()]
    if ids:
        await connection.execute(delete(table).where(table.id.in_(ids)))
    return len(ids)


async def prune_usage(connection: AsyncConnection, before: str) -> int:
    """Remove what was used before a day; gives how many rows."""
    return (await connection.execute(delete(Usage).where(Usage.day < before))).rowcount


async def count_old(connection: AsyncConnection, table: type[Turn | Job], before: float) -> int:
    """How many rows could be removed."""
    return (await connection.execute(select(func.count()).select_from(table).where(*_old(table, before)))).scalar_one()


def _old(table: type[Turn | Job], before: float) -> tuple[ColumnElement[bool], ...]:
    # The latter two are later than the first, which alone has an index: it never changes, so a turn's end costs none.
    return (table.created_at < before, table.updated_at < before, table.lease_until < before)
