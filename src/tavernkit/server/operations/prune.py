"""Removes old rows by command, with or without a running server."""

from __future__ import annotations

import asyncio

from tavernkit.server.config import ServerConfig
from tavernkit.server.monitoring.metrics import Metrics
from tavernkit.server.operations.retention import Retention
from tavernkit.server.storage.database import Database, database_errors


def prune(config: ServerConfig, *, dry_run: bool = False) -> dict[str, int]:
    """Remove turns and jobs that are older than the settings allow; return how many of each.

    With ``dry_run`` nothing is removed. Kinds that are kept forever are not in the result.
    """
    return asyncio.run(_prune(config, dry_run=dry_run))


async def _prune(config: ServerConfig, *, dry_run: bool) -> dict[str, int]:
    database = Database(config.database_url, create=False)
    try:
        with database_errors():
            await database.require_tables()
            retention = Retention(config, database, Metrics())
            return await (retention.count() if dry_run else retention.prune())
    finally:
        await database.close()
