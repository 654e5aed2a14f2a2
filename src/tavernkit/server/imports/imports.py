"""Imports a SillyTavern data folder, or files exported from RisuAI, as one job."""

from __future__ import annotations

import asyncio
import logging
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from sqlalchemy.ext.asyncio import AsyncConnection

from tavernkit.errors import TavernKitError
from tavernkit.server.config import ServerConfig
from tavernkit.server.errors import ServiceError
from tavernkit.server.imports.found import Found
from tavernkit.server.imports.progress import Progress
from tavernkit.server.imports.records import store
from tavernkit.server.imports.sources import find_work
from tavernkit.server.storage import jobs
from tavernkit.server.storage.database import Database

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

    async def start(self, owner: str, folder: Path, filename: str) -> jobs.JobState:
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

    async def _admitted(self, owner: str) -> jobs.JobState | None:
        """Create a job, if the limit across all processes allows it."""
        async with self._database.write() as connection:
            if await jobs.running_jobs(connection) >= self._config.max_imports:
                return None
            return await jobs.create_job(connection, owner, "import")

    async def _run(self, progress: Progress, filename: str) -> None:
        status = jobs.FAILED
        renewing = asyncio.create_task(self._keep(progress.job_id))
        try:
            work = await asyncio.to_thread(find_work, progress.folder, filename, progress.warn)
            async with self._database.write() as connection:
                await jobs.update_job(connection, progress.job_id, total=len(work))
            for name, read in work:
                await self._one(progress, name, read)
            status = jobs.DONE
        except ServiceError as error:
            progress.warn(str(error))
        except asyncio.CancelledError:
            status = jobs.INTERRUPTED
            raise
        except Exception:
            logger.exception("an import failed")
            progress.warn("the import failed; the log says why")
        finally:
            renewing.cancel()
            shutil.rmtree(progress.folder, ignore_errors=True)
            async with self._database.write() as connection:
                await jobs.update_job(connection, progress.job_id, status=status, result=progress.result())

    async def _keep(self, job_id: str) -> None:
        """Renew the job's lease, because unpacking or one large file may take longer."""
        while True:
            await asyncio.sleep(jobs.LEASE_SECONDS / 3)
            try:
                async with self._database.write() as connection:
                    await jobs.update_job(connection, job_id)
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
        await jobs.update_job(connection, progress.job_id, done=progress.done, result=progress.result())
