"""Removes old data: answers of old turns, and old jobs."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from datetime import UTC, datetime

from sqlalchemy import ColumnElement, delete, exists, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from tavernkit.server.config import ServerConfig
from tavernkit.server.limits import PRUNE_BATCH, PRUNE_FIRST_SECONDS, PRUNE_PAUSE_SECONDS, PRUNE_SECONDS
from tavernkit.server.metrics import Metrics
from tavernkit.server.storage.database import Database, database_errors
from tavernkit.server.storage.tables import Chat, Job, Turn, Usage

logger = logging.getLogger("tavernkit.server")

DAY = 86_400.0
USAGE = "usage"


def prune(config: ServerConfig, *, dry_run: bool = False) -> dict[str, int]:
    """Remove turns, jobs and usage that are older than the settings allow; return how many rows of each.

    Kinds that are kept forever are not in the result.

    Args:
        config: The settings: which database, and how long what is kept.
        dry_run: Count, and remove nothing.
    """
    return asyncio.run(_prune_once(config, dry_run=dry_run))


async def _prune_once(config: ServerConfig, *, dry_run: bool) -> dict[str, int]:
    database = Database(config.database_url, create=False)
    try:
        with database_errors():
            await database.require_tables()
            retention = Retention(config, database, Metrics())
            return await (retention.count() if dry_run else retention.prune())
    finally:
        await database.close()


class Retention:
    """Prunes in the background, a few rows at a time. Several processes may run it at once."""

    def __init__(self, config: ServerConfig, database: Database, metrics: Metrics) -> None:
        self._database = database
        self._metrics = metrics
        days: dict[type[Turn | Job], float] = {Turn: config.turn_days, Job: config.job_days}
        self._days = {table: kept for table, kept in days.items() if kept > 0}
        self._usage_days = config.usage_days
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start, unless everything is kept forever."""
        if self._days or self._usage_days:
            self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Stop; an unfinished removal is rolled back."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def prune(self, now: float | None = None) -> dict[str, int]:
        """Remove everything that is too old, and return how many rows."""
        now = time.time() if now is None else now
        gone = {table.__tablename__: await self._prune(table, now - days * DAY) for table, days in self._days.items()}
        return {**gone, USAGE: await self._prune_usage(now)} if self._usage_days else gone

    async def count(self, now: float | None = None) -> dict[str, int]:
        """Return how many rows are too old, without removing them."""
        now = time.time() if now is None else now
        async with self._database.read() as connection:
            old = {
                table.__tablename__: await _count(connection, table, *_old(table, now - days * DAY))
                for table, days in self._days.items()
            }
            if self._usage_days:
                old[USAGE] = await _count(connection, Usage, self._old_usage(now))
        return old

    async def _prune_usage(self, now: float) -> int:
        """Remove old usage; there are few rows per day."""
        async with self._database.write() as connection:
            gone = (await connection.execute(delete(Usage).where(self._old_usage(now)))).rowcount
        self._metrics.pruned(USAGE, gone)
        return gone

    def _old_usage(self, now: float) -> ColumnElement[bool]:
        return Usage.day < _day(now - self._usage_days * DAY)

    async def _prune(self, table: type[Turn | Job], before: float) -> int:
        total = 0
        while True:
            async with self._database.write() as connection:
                gone = await _delete_old(connection, table, before, limit=PRUNE_BATCH)
            self._metrics.pruned(table.__tablename__, gone)
            total += gone
            if gone < PRUNE_BATCH:
                return total
            await asyncio.sleep(PRUNE_PAUSE_SECONDS)  # others write as well

    async def _run(self) -> None:
        wait = PRUNE_FIRST_SECONDS
        while True:
            await asyncio.sleep(wait * (1 + random.random()))  # workers that start together should not prune together
            wait = PRUNE_SECONDS
            for table, days in self._days.items():
                try:
                    await self._prune(table, time.time() - days * DAY)
                except Exception:
                    logger.warning("old %s could not be removed", table.__tablename__, exc_info=True)
            try:
                if self._usage_days:
                    await self._prune_usage(time.time())
            except Exception:
                logger.warning("old usage could not be removed", exc_info=True)


def _day(seconds: float) -> str:
    return datetime.fromtimestamp(max(seconds, 0.0), UTC).date().isoformat()


async def _delete_old(connection: AsyncConnection, table: type[Turn | Job], before: float, *, limit: int) -> int:
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


async def _count(connection: AsyncConnection, table: type[Turn | Job | Usage], *old: ColumnElement[bool]) -> int:
    """Return how many rows could be removed."""
    return (await connection.execute(select(func.count()).select_from(table).where(*old))).scalar_one()


def _old(table: type[Turn | Job], before: float) -> tuple[ColumnElement[bool], ...]:
    # The latter two are later than the first, the only one with an index: it never changes, so ending a turn is cheap.
    old = (table.created_at < before, table.updated_at < before, table.lease_until < before)
    if table is not Turn:
        return old
    # Of a turn whose process has died, the session gets the text when it is read again.
    return (*old, ~exists().where(Chat.id == Turn.session_id, Chat.turn_id == Turn.id))
