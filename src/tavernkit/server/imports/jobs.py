"""Import jobs: an upload - a SillyTavern data folder, or files exported from RisuAI - is imported in the background."""

from __future__ import annotations

import asyncio
import logging
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from tavernkit._values import JsonObject
from tavernkit.errors import TavernKitError
from tavernkit.server.config import ServerConfig
from tavernkit.server.errors import ServiceError, not_found
from tavernkit.server.imports.found import Found, Progress
from tavernkit.server.imports.records import store
from tavernkit.server.imports.sources import find_work
from tavernkit.server.storage.database import Database, advisory_lock
from tavernkit.server.storage.tables import Job, new_id

RUNNING, DONE, FAILED, INTERRUPTED = "running", "done", "failed", "interrupted"
LEASE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class JobState:
    """A job and its progress."""

    id: str
    kind: str
    status: str
    total: int
    done: int
    result: JsonObject
    created_at: float
    updated_at: float


async def create_job(connection: AsyncConnection, owner: str, kind: str) -> JobState:
    """Store a new job."""
    now = time.time()
    job = JobState(new_id(), kind, RUNNING, 0, 0, {}, now, now)
    values: dict[str, object] = {
        "id": job.id,
        "owner": owner,
        "kind": kind,
        "status": RUNNING,
        "total": 0,
        "done": 0,
        "result": {},
        "lease_until": now + LEASE_SECONDS,
        "created_at": now,
        "updated_at": now,
    }
    await connection.execute(insert(Job).values(values))
    return job


async def running_jobs(connection: AsyncConnection) -> int:
    """Return the number of running jobs in all processes; no other can start before the transaction ends."""
    await advisory_lock(connection, "jobs")
    query = select(func.count()).select_from(Job).where(Job.status == RUNNING, Job.lease_until > time.time())
    return (await connection.execute(query)).scalar_one()


async def update_job(connection: AsyncConnection, job_id: str, **values: object) -> None:
    """Update the progress."""
    now = time.time()
    await connection.execute(
        update(Job).where(Job.id == job_id).values(updated_at=now, lease_until=now + LEASE_SECONDS, **values)
    )


async def get_job(connection: AsyncConnection, job_id: str, *, owner: str | None) -> JobState:
    """Return a job by its id; a job whose process has died is shown as interrupted."""
    query = select(
        Job.id, Job.kind, Job.status, Job.total, Job.done, Job.result, Job.created_at, Job.updated_at, Job.lease_until
    ).where(Job.id == job_id)
    if owner is not None:
        query = query.where(Job.owner == owner)
    row = (await connection.execute(query)).one_or_none()
    if row is None:
        raise not_found("job", job_id)
    status = INTERRUPTED if row[2] == RUNNING and row[8] < time.time() else row[2]
    return JobState(row[0], row[1], status, row[3], row[4], row[5], row[6], row[7])


logger = logging.getLogger("tavernkit.server")

POLL_SECONDS = 0.25
RETRY_SECONDS = 10.0
"""The ``Retry-After`` of refused imports."""


class Imports:
    """Runs import jobs in the background."""

    def __init__(self, config: ServerConfig, database: Database) -> None:
        self._config = config
        self._database = database
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, owner: str, folder: Path, filename: str) -> JobState:
        """Start an import of ``folder/upload``; the folder is removed at the end.

        Waits while the maximum number of imports is running.
        """
        deadline = time.monotonic() + self._config.busy_seconds
        while (job := await self._admitted(owner)) is None:
            if time.monotonic() >= deadline:
                message = f"{self._config.max_imports} imports are running already"
                raise ServiceError(503, message, code="too_many_imports", retry_after=RETRY_SECONDS)
            await asyncio.sleep(POLL_SECONDS)
        task = asyncio.create_task(self._run(Progress(job.id, owner, folder), filename))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return job

    async def stop(self) -> None:
        """Stop running imports; they are marked as interrupted."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _admitted(self, owner: str) -> JobState | None:
        """Create a job, if the limit across all processes allows it."""
        async with self._database.write() as connection:
            if await running_jobs(connection) >= self._config.max_imports:
                return None
            return await create_job(connection, owner, "import")

    async def _run(self, progress: Progress, filename: str) -> None:
        status = FAILED
        renewing = asyncio.create_task(self._keep(progress.job_id))
        try:
            work = await asyncio.to_thread(find_work, progress.folder, filename, progress.warn)
            async with self._database.write() as connection:
                await update_job(connection, progress.job_id, total=len(work))
            for name, read in work:
                await self._one(progress, name, read)
            status = DONE
        except ServiceError as error:
            progress.warn(str(error))
        except asyncio.CancelledError:
            status = INTERRUPTED
            raise
        except Exception:
            logger.exception("an import failed")
            progress.warn("the import failed; the log says why")
        finally:
            renewing.cancel()
            await asyncio.to_thread(shutil.rmtree, progress.folder, ignore_errors=True)
            async with self._database.write() as connection:
                await update_job(connection, progress.job_id, status=status, result=progress.result())

    async def _keep(self, job_id: str) -> None:
        """Renew the job's lease, because unpacking or one large file may take longer."""
        while True:
            await asyncio.sleep(LEASE_SECONDS / 3)
            try:
                async with self._database.write() as connection:
                    await update_job(connection, job_id)
            except Exception:
                logger.warning("the lease of an import could not be renewed", exc_info=True)

    async def _one(self, progress: Progress, name: str, read: Callable[[], Found]) -> None:
        """Store one file and the progress together; a file that cannot be imported is reported and left out."""
        progress.done += 1
        try:
            found = await asyncio.to_thread(read)
            async with self._database.write() as connection:
                await store(connection, progress, name, found)
                await self._note(connection, progress)
        except (TavernKitError, OSError) as error:
            progress.warn(f"{name} is left out: {error}")
        except Exception:
            logger.exception("a file could not be imported")
            progress.warn(f"{name} is left out; the log says why")
        else:
            return
        async with self._database.write() as connection:
            await self._note(connection, progress)

    async def _note(self, connection: AsyncConnection, progress: Progress) -> None:
        await update_job(connection, progress.job_id, done=progress.done, result=progress.result())
