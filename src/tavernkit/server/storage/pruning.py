"""Removes old rows."""

from __future__ import annotations

from sqlalchemy import ColumnElement, delete, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from tavernkit.server.storage.tables import Job, Turn, Usage


async def prune(connection: AsyncConnection, table: type[Turn | Job], before: float, *, limit: int) -> int:
    """Remove some rows that were not used since a time; return how many.

    Running turns have a newer lease. Rows that are locked, because a failed turn is being retried, are skipped.
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
    """Remove the usage before a day; return the number of rows."""
    return (await connection.execute(delete(Usage).where(Usage.day < before))).rowcount


async def count_old(connection: AsyncConnection, table: type[Turn | Job], before: float) -> int:
    """Return how many rows could be removed."""
    return (await connection.execute(select(func.count()).select_from(table).where(*_old(table, before)))).scalar_one()


def _old(table: type[Turn | Job], before: float) -> tuple[ColumnElement[bool], ...]:
    # The latter two are later than the first, the only one with an index: it never changes, so ending a turn is cheap.
    return (table.created_at < before, table.updated_at < before, table.lease_until < before)
