"""Served folders: read at startup and when they change, and sessions written back to their files."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection

from tavernkit import risu_ai
from tavernkit import silly_tavern as st
from tavernkit._values import is_object
from tavernkit.cards import parse_json
from tavernkit.cards._silly_tavern.stored import chat_name, sanitize
from tavernkit.conversation import RisuSaveStore, SavedChat
from tavernkit.conversation._program_stores import OWN_FOLDER
from tavernkit.conversation._stores import free_path, save_file
from tavernkit.errors import ConfigError, TavernKitError
from tavernkit.risu_ai._files.chat_file import write_chats
from tavernkit.server.config import ServerConfig
from tavernkit.server.errors import ServiceError
from tavernkit.server.imports.found import Found, Progress
from tavernkit.server.imports.records import store
from tavernkit.server.imports.sources import files_below, work_below
from tavernkit.server.keys import ADMIN_OWNER, LOCAL
from tavernkit.server.library.library import RISU_AI
from tavernkit.server.library.stored_folders import FOLDER, SERVED, StoredFolder, read_folder
from tavernkit.server.limits import (
    KEPT_BACKUPS,
    MAX_IMPORT_FILES,
    MAX_PAGE,
    WATCH_SECONDS,
    WRITE_BACK_SECONDS,
)
from tavernkit.server.sessions.files import (
    FileMark,
    digest_of,
    name_of,
    note_session,
    risu_digest,
    set_mark,
    silly_tavern_file,
    stored_messages,
    stored_risu_chat,
)
from tavernkit.server.storage import chats
from tavernkit.server.storage.chats import ChatState
from tavernkit.server.storage.database import Database, advisory_lock
from tavernkit.server.storage.items import infos, item_file
from tavernkit.server.storage.lines import ChatLine, read_all_lines
from tavernkit.server.storage.tables import new_id
from tavernkit.silly_tavern._files.folder_files import CHATS

logger = logging.getLogger("tavernkit.server")

OVERLAP_SECONDS = 30.0
"""How far back changed sessions are checked again, because clocks of several machines differ."""

DATABASE_ERRORS = (SQLAlchemyError, sqlite3.Error)

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
                except Exception as error:
                    logger.exception("a folder could not be read")
                    if isinstance(error, DATABASE_ERRORS):
                        self._seen = {}  # it is not the folder's fault: try again

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
        except DATABASE_ERRORS:
            raise
        except Exception:
            logger.exception("a file could not be imported")
            progress.warn(f"{name} is left out; the log says why")
        progress.done += 1


@dataclass(frozen=True, slots=True)
class Written:
    """The result of writing a session's file."""

    path: str
    digest: str
    warning: str = ""


class WriteBack:
    """Writes changed sessions to their files, if configured. Files that other programs have changed are left alone."""

    def __init__(self, config: ServerConfig, database: Database, note_written: Callable[[Path], None]) -> None:
        """Prepare for writing.

        Args:
            config: The settings.
            database: The database.
            note_written: Called for every file that is written.
        """
        self._note_written = note_written
        self._folder = config.from_sillytavern if config.write_back else None
        self._save = config.from_risuai if config.write_back else None
        self._database = database
        self.owner = ADMIN_OWNER if config.keys_required else LOCAL.owner
        self._since = 0.0
        self._failed: set[tuple[str, str]] = set()
        """Sessions that could not be written: they are tried again."""
        self._backed_up: set[Path] = set()
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Write from time to time."""
        if self._folder is not None or self._save is not None:
            self._task = asyncio.create_task(self._writing())

    async def stop(self) -> None:
        """Write pending sessions, and stop."""
        if self._task is None:
            return
        self._stopping.set()  # not cancelled: a file that is just written would not be known as ours
        await self._task
        await self.write_changed()

    async def write_changed(self) -> None:
        """Write the sessions that have changed since the last time."""
        began = time.time()
        for chat_id, platform in sorted({*self._failed, *await self._changed()}):
            self._failed.add((chat_id, platform))
            try:
                if platform == RISU_AI:
                    await self._write_save_chat(chat_id)
                else:
                    await self._write_chat(chat_id)
            except (TavernKitError, OSError) as error:
                logger.warning("the session %s is not written back: %s", chat_id, error)
            else:
                self._failed.discard((chat_id, platform))
        self._since = began - OVERLAP_SECONDS

    async def _writing(self) -> None:
        while not self._stopping.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), WRITE_BACK_SECONDS)
            try:
                await self.write_changed()
            except Exception:
                logger.exception("sessions could not be written back")

    async def _changed(self) -> list[tuple[str, str]]:
        found: list[tuple[str, str]] = []
        before: tuple[float, str] | None = None
        async with self._database.read() as connection:
            while page := await chats.list_chats(connection, self.owner, before=before, limit=MAX_PAGE):
                for chat in page:
                    if chat.updated_at < self._since:
                        return found
                    mark, platform = FileMark.of(chat), chat.selection.platform
                    served = self._save is not None and mark is not None
                    served = served if platform == RISU_AI else self._folder is not None
                    if served and (mark is None or mark.version != chat.version):
                        found.append((chat.id, platform))
                before = (page[-1].updated_at, page[-1].id)
        return found

    async def _locked(self, connection: AsyncConnection, chat_id: str) -> ChatState | None:
        """Return a session that must be written, locked; None if it need not be, or was removed."""
        await advisory_lock(connection, "write-back")
        try:
            chat = await chats.get_chat(connection, chat_id, lock=True)
        except ServiceError:
            return None
        mark = FileMark.of(chat)
        if chat.busy(time.time()) or (mark is not None and mark.version == chat.version):
            return None
        return chat

    async def _write_chat(self, chat_id: str) -> None:
        """Write a SillyTavern chat."""
        assert self._folder is not None
        async with self._database.write() as connection:
            chat = await self._locked(connection, chat_id)
            if chat is None:
                return
            mark = FileMark.of(chat)
            place = self._folder / mark.path if mark is not None else await self._new_place(connection, chat)
            if place is None:
                return
            lines, name = await read_all_lines(connection, chat.id), await name_of(connection, chat)
            written = await asyncio.to_thread(self._written, place, mark, chat, lines, name)
            if written.warning:
                logger.warning("%s", written.warning)
            skipped = mark.skipped if mark is not None and written.path == mark.path else 0
            new = FileMark(path=written.path, digest=written.digest, version=chat.version, skipped=skipped)
            await set_mark(connection, chat, new)
            if mark is None or written.path != mark.path:
                await note_session(connection, written.path, chat.id)

    def _written(
        self, place: Path, mark: FileMark | None, chat: ChatState, lines: list[ChatLine], name: str
    ) -> Written:
        """Write a chat's file, or a copy if the file has changed."""
        assert self._folder is not None
        before = place.read_bytes() if place.is_file() else None
        warning = ""
        if mark is not None and (before is None or digest_of(before) != mark.digest):
            change = "removed" if before is None else "changed"
            copy = free_path(place, f"{place.stem} (tavernkit)")
            warning = f"{place.name} was {change} by another program and is left alone: the session is in {copy.name}"
            place, before = copy, None
        if before is None:
            content = silly_tavern_file(chat, name, lines)
        else:
            content = _with_messages(before, chat, lines, mark.skipped if mark else 0)
            self._back_up(place, before)
        save_file(place, content)
        self._note_written(place)
        return Written(place.relative_to(self._folder).as_posix(), digest_of(content), warning)

    async def _new_place(self, connection: AsyncConnection, chat: ChatState) -> Path | None:
        """Return the path for a session without a file; None if its character is not in the folder."""
        assert self._folder is not None
        folder = await _served(connection)
        character = chat.selection.character
        if folder is None or character is None or character not in folder.avatars:
            return None  # groups list their chats in a file of SillyTavern's
        name = Path(folder.avatars[character]).stem
        stem = sanitize(chat_name(name, datetime.fromtimestamp(chat.created_at).astimezone()))
        return free_path(self._folder / CHATS / name / f"{stem}.jsonl", stem)

    def _back_up(self, place: Path, content: bytes) -> None:
        """Back up a file before this process writes to it for the first time."""
        if place in self._backed_up:
            return
        assert self._folder is not None or self._save is not None
        root = self._folder if self._folder is not None and place.is_relative_to(self._folder) else place.parent
        folder = root / OWN_FOLDER / "backups" / place.parent.name
        target = free_path(folder / place.name, place.stem)
        save_file(target, content)
        kept = sorted(folder.glob(f"*{place.suffix}"), key=lambda path: path.stat().st_mtime_ns)
        own = [path for path in kept if path.stem == place.stem or path.stem.startswith(f"{place.stem} ")]
        for old in own[:-KEPT_BACKUPS]:
            old.unlink(missing_ok=True)
        self._backed_up.add(place)

    async def _write_save_chat(self, chat_id: str) -> None:
        """Write a chat of a RisuAI save."""
        assert self._save is not None
        async with self._database.write() as connection:
            chat = await self._locked(connection, chat_id)
            mark = FileMark.of(chat) if chat is not None else None
            if chat is None or mark is None:
                return
            lines = await read_all_lines(connection, chat.id)
            written = await asyncio.to_thread(self._written_save, self._save, mark, chat, lines)
            if written.warning:
                logger.warning("%s", written.warning)
            new = replace(mark, path=written.path, digest=written.digest, version=chat.version)
            await set_mark(connection, chat, new)

    def _written_save(self, path: Path, mark: FileMark, chat: ChatState, lines: list[ChatLine]) -> Written:
        content = path.read_bytes() if path.is_file() else b""
        save = risu_ai.Save.load(path, warn=_ignore)
        stored = next((each for each in save.chats(mark.owner) if each.id == mark.path), None)
        name, warning, chat_id = stored.name if stored is not None else "", "", mark.path
        if stored is None or risu_digest(stored) != mark.digest:
            chat_id = new_id()
            warning = (
                f"the chat {name or mark.path!r} of {path.name} was changed by another program and is not overwritten: "
                "the session is a chat of its own there now"
            )
            name = f"{name} (tavernkit)".strip()
        mine = stored_risu_chat(chat, name, lines, chat_id=chat_id)
        self._back_up(path, content)
        file = write_chats(risu_ai.ChatFile((mine,), ()))
        RisuSaveStore(path, mark.owner, chat_id).save(SavedChat(file=file))
        again = risu_ai.Save.load(path, warn=_ignore)
        kept = next(each for each in again.chats(mark.owner) if each.id == chat_id)
        return Written(chat_id, risu_digest(kept), warning)


def _with_messages(before: bytes, chat: ChatState, lines: list[ChatLine], skipped: int) -> bytes:
    """Return a chat file with other messages; its header, and lines that the session never had, stay unchanged."""
    head, _, rest = before.partition(b"\n")
    messages, metadata = stored_messages(chat, lines)
    header = st.ChatFile.load(head, warn=_ignore)
    content = replace(header, messages=messages, metadata=metadata).dumps().encode("utf-8", "surrogatepass")
    if not skipped:
        return content
    kept = [line for line in rest.split(b"\n") if line.strip()][:skipped]
    new_head, _, own = content.partition(b"\n")
    return b"\n".join([new_head, *kept, own])


async def _served(connection: AsyncConnection) -> StoredFolder | None:
    if not await infos(connection, [(FOLDER, SERVED)]):
        return None
    value: object = parse_json(await item_file(connection, FOLDER, SERVED), what="folder", warn=_ignore)
    return read_folder(SERVED, value) if is_object(value) else None


def _ignore(_: str) -> None:
    """Ignore a warning: damage was reported when the file was imported."""
