"""Imports of whole collections."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from dataclasses import asdict
from pathlib import Path

from fastapi import APIRouter, UploadFile

from tavernkit.server.api.dependencies import TheService, Writer
from tavernkit.server.api.library import PathId
from tavernkit.server.api.rest_types import JobOut
from tavernkit.server.imports.archive import copy_upload
from tavernkit.server.sessions.edits import owned_by
from tavernkit.server.storage import jobs
from tavernkit.server.storage.columns import storable

router = APIRouter(prefix="/api/imports", tags=["imports"])


@router.post("", status_code=202)
async def begin_import(file: UploadFile, service: TheService, client: Writer) -> JobOut:
    """Import a ZIP file of a SillyTavern data folder or of RisuAI's exports, or a single file, as one job."""
    folder = Path(tempfile.mkdtemp(prefix="tavernkit-import-"))
    try:
        await asyncio.to_thread(copy_upload, file.file, folder / "upload")
        job = await service.imports.start(client.owner, folder, storable(file.filename or "upload"))
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return JobOut.model_validate(asdict(job))


@router.get("/{job_id}")
async def get_import(job_id: PathId, service: TheService, client: Writer) -> JobOut:
    """The progress of an import, and what it left out."""
    async with service.database.read() as connection:
        return JobOut.model_validate(asdict(await jobs.get_job(connection, job_id, owner=owned_by(client))))
