"""Served folders: read at startup, and again when they change."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from tavernkit.conversation._program_stores import OWN_FOLDER
from tavernkit.errors import ConfigError, TavernKitError
from tavernkit.server.access.keys import ADMIN_OWNER, LOCAL
from tavernkit.server.config import ServerConfig
from tavernkit.server.imports.archive import files_below
from tavernkit.server.imports.found import Found
from tavernkit.server.imports.progress import Progress
from tavernkit.server.imports.records import store
from tavernkit.server.imports.sources import work_below
from tavernkit.server.limits import MAX_IMPORT_FILES, WATCH_SECONDS
from tavernkit.server.storage.database import Database, advisory_lock

logger = logging.getLogger("tavernkit.server")

JOB = "folder"
"""Replaces the job's id in the ids of chats from a folder."""


class ServedFolders:
    """Adds the files of folders to the library. A changed file becomes a new version; removed files stay here."""

    def __init__(self, config: ServerConfig, database: Database) -> None:
        self._folders = [path.absolute() for path in (config.characters, config.from_sillytavern) if path is not None]
        self._data = config.data.absolute()
        self._database = database
        self._owner = ADMIN_OWNER if config.keys_required else LOCAL.owner
        self._watch = config.watch
        self._seen: dict[str, tuple[int, int]] = {}
        self._task: asyncio.Task[None] | None = None

    def check(self) -> None:
        """Check that all folders exist.

        Raises:
            ConfigError: A folder does not exist.
        """
        for folder in self._folders:
            if not folder.is_dir():
                raise ConfigError(f"there is no folder {str(folder)!r}", code="INVALID_SETTING")

    async def start(self) -> None:
        """Read everything, and watch for changes if configured.

        Raises:
            ConfigError: A folder does not exist.
        """
        self.check()
        self._seen = await asyncio.to_thread(self._signature)
        for folder in self._folders:
            await self.read(folder)
        if self._watch and self._folders:
            self._task = asyncio.create_task(self._watching())

    async def stop(self) -> None:
        """Stop watching."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def read(self, folder: Path) -> Progress:
        """Import new and changed files of a folder."""
        progress = Progress(JOB, self._owner, folder, served=True)
        await import_below(self._database, progress, folder)
        for warning in progress.warnings:
            logger.warning("%s: %s", folder.name, warning)
        return progress

    def note_written(self, path: Path) -> None:
        """Record a file that the service itself has written, so that it is not read again."""
        with suppress(OSError):
            stat = path.stat()
            self._seen[str(path.absolute())] = (stat.st_mtime_ns, stat.st_size)

    async def _watching(self) -> None:
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            now = await asyncio.to_thread(self._signature)
            if now == self._seen:
                continue
            self._seen = now
            for folder in self._folders:
                try:
                    await self.read(folder)
                except Exception:
                    logger.exception("a folder could not be read")

    def _signature(self) -> dict[str, tuple[int, int]]:
        """Return a signature that changes with the folder."""
        found: dict[str, tuple[int, int]] = {}
        for folder in self._folders:
            own = {folder / OWN_FOLDER, self._data} - {folder, *folder.parents}
            for path in files_below(folder):
                if not own.isdisjoint(path.parents):
                    continue  # our own files, which change with every turn
                with suppress(OSError):
                    stat = path.stat()
                    found[str(path)] = (stat.st_mtime_ns, stat.st_size)
                if len(found) >= MAX_IMPORT_FILES:
                    return found
        return found


async def import_below(database: Database, progress: Progress, folder: Path) -> None:
    """Store everything in a folder; cards and other files that cannot be imported are reported and left out.

    Args:
        database: The database.
        progress: Records what was done.
        folder: The folder.
    """
    work = await asyncio.to_thread(work_below, folder, progress.warn, served=progress.served)
    await import_work(database, progress, work)


async def import_work(database: Database, progress: Progress, work: Sequence[tuple[str, Callable[[], Found]]]) -> None:
    """Store the found items one by one.

    Args:
        database: The database.
        progress: Records what was done.
        work: Names, and functions that read the items.
    """
    for name, read in work:
        try:
            found = await asyncio.to_thread(read)
            async with database.write() as connection:
                if progress.served:
                    await advisory_lock(connection, "served-folders")  # other processes read the same folder
                await store(connection, progress, name, found)
        except (TavernKitError, OSError) as error:
            progress.warn(f"{name} is left out: {error}")
        progress.done += 1
