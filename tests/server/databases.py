"""The database that server tests run on: SQLite, or PostgreSQL when ``make test-postgres`` says where it is."""

from __future__ import annotations

import asyncio
import os
import uuid

POSTGRES = os.environ.get("TAVERNKIT_TEST_POSTGRES", "")
"""URL of a PostgreSQL server, without a database: ``postgresql://user@127.0.0.1:5433``."""


def database_url() -> dict[str, object]:
    """The setting of a fresh database."""
    if not POSTGRES:
        return {}
    name = f"tavernkit_{uuid.uuid4().hex}"
    asyncio.run(_create(name)) if not _in_loop() else _create_in_thread(name)
    return {"db": f"{POSTGRES}/{name}"}


def _in_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _create_in_thread(name: str) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        pool.submit(lambda: asyncio.run(_create(name))).result()


async def _create(name: str) -> None:
    import asyncpg

    connection = await asyncpg.connect(f"{POSTGRES}/postgres")
    try:
        await connection.execute(f'CREATE DATABASE "{name}"')
    finally:
        await connection.close()
