"""Import jobs."""

from __future__ import annotations

import time
from dataclasses import dataclass

from sqlalchemy import func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from tavernkit._values import JsonObject
from tavernkit.server.errors import not_found
from tavernkit.server.storage.chats import new_id
from tavernkit.server.storage.database import advisory_lock
from tavernkit.server.storage.tables import Job

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
