"""Operations on a whole database, with or without a running server: import, export, backup, restore, keys."""

from __future__ import annotations

import asyncio
import base64
import json
import shutil
import tempfile
import zipfile
from collections.abc import Awaitable, Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import LargeBinary, Table, func, insert, select

from tavernkit import __version__
from tavernkit._values import JsonObject
from tavernkit.errors import ConfigError
from tavernkit.server.accounts import GROUPINGS, Accounts, Grouping, period, usage_report
from tavernkit.server.config import ServerConfig
from tavernkit.server.errors import ServiceError
from tavernkit.server.imports.found import Progress
from tavernkit.server.imports.served_folders import import_below, import_work
from tavernkit.server.imports.sources import EXPORT_MARK, find_work, save_work
from tavernkit.server.keys import ADMIN_OWNER, LOCAL, Allowance, KeyInfo, Keys, Scope
from tavernkit.server.limits import MAX_PAGE
from tavernkit.server.sessions.files import chat_file, is_mark
from tavernkit.server.storage import chats
from tavernkit.server.storage.database import Database, database_errors
from tavernkit.server.storage.items import KINDS, all_items, item_file
from tavernkit.server.storage.tables import Base, new_id

T = TypeVar("T")

MANIFEST = "tavernkit-backup.json"
FORMAT = 1
SQLITE_START, ZIP_START = b"SQLite format 3\0", b"PK"
ROWS_AT_ONCE = 500
LEFT_OUT = frozenset(("rate_windows",))
"""Tables that are not worth a backup."""


def import_path(config: ServerConfig, path: Path) -> JsonObject:
    """Import a folder, an archive or a file into the database; return what was imported and what was not.

    Args:
        config: The settings.
        path: A SillyTavern data folder, a folder of cards, a ZIP file of one, or a file.

    Raises:
        ConfigError: There is no such path, or the archive cannot be read.
    """

    async def work(database: Database) -> JsonObject:
        await database.migrate()
        owner = ADMIN_OWNER if config.keys_required else LOCAL.owner
        with tempfile.TemporaryDirectory(prefix="tavernkit-import-") as name:
            folder = Path(name)
            progress = Progress(new_id(), owner, folder)
            if is_folder:
                await import_below(database, progress, path)
            else:
                await asyncio.to_thread(shutil.copyfile, path, folder / "upload")
                found = await asyncio.to_thread(find_work, folder, path.name, progress.warn)
                await import_work(database, progress, found)
        return progress.result()

    is_folder = path.is_dir()
    if not path.exists():
        raise ConfigError(f"there is no {str(path)!r}", code="NOT_FOUND")
    return _with_database(config, work, create=True)


def import_save(config: ServerConfig, path: Path) -> JsonObject:
    """Import a RisuAI save into the database; existing chats do not change.

    Args:
        config: The settings.
        path: A local backup, a database, or the folder in which RisuAI keeps its data.

    Raises:
        ConfigError: The save cannot be read.
    """
    place = path.resolve()

    async def work(database: Database) -> JsonObject:
        await database.migrate()
        owner = ADMIN_OWNER if config.keys_required else LOCAL.owner
        progress = Progress(new_id(), owner, path.parent, save=place)
        try:
            found = await asyncio.to_thread(save_work, path, progress.warn)
        except ServiceError as error:
            raise ConfigError(f"{path} cannot be imported: {error}", code="IMPORT_FAILED") from error
        await import_work(database, progress, found)
        return progress.result()

    return _with_database(config, work, create=True)


def export_all(config: ServerConfig, target: Path, *, session: str | None = None) -> dict[str, int]:
    """Write the library and all sessions to a ZIP file in the platforms' formats; return how many of each.

    Args:
        config: The settings.
        target: The ZIP file; for one session, a file in its platform's format.
        session: Our id of the session, to write only this one.
    """
    _refuse_other_file(target, zipped=session is None)

    async def work(database: Database) -> dict[str, int]:
        await database.require_tables()
        if session is not None:
            async with database.read() as connection:
                _, content = await chat_file(connection, await chats.get_chat(connection, session))
            with _writing(target):
                await asyncio.to_thread(target.write_bytes, content)
            return {"session": 1}
        counts: dict[str, int] = {}
        with _zip_file(target) as archive:
            archive.writestr(EXPORT_MARK, json.dumps({"version": __version__}))
            async with database.read(snapshot=True) as connection:
                for kind in KINDS:
                    for info in await all_items(connection, kind):
                        if is_mark(info):
                            continue
                        suffix = Path(info.filename).suffix
                        archive.writestr(f"{kind}s/{info.id}{suffix}", await item_file(connection, kind, info.id))
                        counts[kind] = counts.get(kind, 0) + 1
                before: tuple[float, str] | None = None
                while page := await chats.list_chats(connection, None, before=before, limit=MAX_PAGE):
                    for chat in page:
                        name, content = await chat_file(connection, chat)
                        owner = chat.selection.group or chat.selection.character or "chat"
                        archive.writestr(f"chats/{owner}/{chat.id[:8]}-{name}", content)
                        counts["session"] = counts.get("session", 0) + 1
                    before = (page[-1].updated_at, page[-1].id)
        return counts

    return _with_database(config, work)


def backup(config: ServerConfig, target: Path) -> dict[str, int]:
    """Write all rows of the database to a ZIP file for any database; return the number of rows by table.

    Args:
        config: The settings.
        target: The file. It contains hashes of keys, and encrypted keys of upstreams.
    """
    _refuse_other_file(target)

    async def work(database: Database) -> dict[str, int]:
        await database.require_tables()
        counts: dict[str, int] = {}
        with _zip_file(target) as archive:
            async with database.read(snapshot=True) as connection:
                for table in _tables():
                    rows = await connection.stream(select(table))
                    with archive.open(f"{table.name}.jsonl", "w") as file:
                        count = 0
                        async for row in rows.mappings():
                            file.write(json.dumps(_pack(row)).encode() + b"\n")
                            count += 1
                    counts[table.name] = count
            archive.writestr(MANIFEST, json.dumps({"format": FORMAT, "version": __version__, "rows": counts}))
        return counts

    return _with_database(config, work)


def restore(config: ServerConfig, source: Path) -> dict[str, int]:
    """Fill an empty database from a backup; return the number of rows by table.

    Args:
        config: The settings.
        source: The backup.

    Raises:
        ConfigError: It is not a backup, or the database is not empty.
    """

    async def work(database: Database) -> dict[str, int]:
        await database.migrate()
        counts: dict[str, int] = {}
        try:
            with zipfile.ZipFile(source) as archive:
                if EXPORT_MARK in archive.namelist():
                    message = f"{source} is an export, not a backup: pass it to tavernkit server import"
                    raise ConfigError(message, code="INVALID_BACKUP")
                if json.loads(archive.read(MANIFEST)).get("format") != FORMAT:
                    raise ConfigError(f"{source}: the backup is of another version", code="INVALID_BACKUP")
                async with database.write() as connection:
                    for table in _tables():
                        if (await connection.execute(select(func.count()).select_from(table))).scalar_one():
                            raise ConfigError(
                                "the database is not empty: restore into a new one", code="DATABASE_NOT_EMPTY"
                            )
                    for table in _tables():
                        if f"{table.name}.jsonl" not in archive.namelist():
                            continue  # a backup of a version without this table
                        with archive.open(f"{table.name}.jsonl") as file:
                            read = (_unpack(json.loads(line), table) for line in file if line.strip())
                            for rows in _batches(read):
                                await connection.execute(insert(table), rows)
                                counts[table.name] = counts.get(table.name, 0) + len(rows)
        except ConfigError:
            raise
        except (zipfile.BadZipFile, KeyError, ValueError, OSError, RecursionError) as error:
            raise ConfigError(f"{source}: not a backup of TavernKit: {error}", code="INVALID_BACKUP") from error
        return counts

    return _with_database(config, work, create=True)


def migrate(config: ServerConfig) -> None:
    """Create or update the tables."""

    async def work(database: Database) -> None:
        await database.migrate()

    _with_database(config, work, create=True)


def list_keys(config: ServerConfig) -> list[KeyInfo]:
    """All API keys, without their secrets."""

    async def work(database: Database) -> list[KeyInfo]:
        await database.require_tables()
        return await Keys(config, database).list()

    return _with_database(config, work)


def create_key(
    config: ServerConfig, name: str, scopes: tuple[Scope, ...], allowance: Allowance | None = None
) -> tuple[KeyInfo, str]:
    """Create an API key; return it and its text.

    Args:
        config: The settings.
        name: What it is for.
        scopes: What it may do.
        allowance: Its limits.
    """

    async def work(database: Database) -> tuple[KeyInfo, str]:
        await database.migrate()
        return await Keys(config, database).create(name, scopes, allowance)

    return _with_database(config, work, create=True)


def revoke_key(config: ServerConfig, key_id: str) -> None:
    """Revoke an API key."""

    async def work(database: Database) -> None:
        await database.require_tables()
        await Keys(config, database).revoke(key_id)

    _with_database(config, work)


def read_usage(
    config: ServerConfig, first: date | None, last: date | None, by: Sequence[Grouping] = GROUPINGS
) -> list[dict[str, object]]:
    """Return the usage of keys, grouped as requested.

    Args:
        config: The settings.
        first: The first day; by default 29 days before the last.
        last: The last day; by default today.
        by: What the sums are divided by.
    """

    async def work(database: Database) -> list[dict[str, object]]:
        await database.require_tables()
        begin, end = period(first, last, Accounts().today)
        return await usage_report(database, first=begin, last=end, by=by)

    return _with_database(config, work)


def _with_database(config: ServerConfig, work: Callable[[Database], Awaitable[T]], *, create: bool = False) -> T:
    async def run() -> T:
        database = Database(config.database_url, create=create)
        try:
            with database_errors():
                return await work(database)
        except ServiceError as error:
            raise ConfigError(str(error), code=error.code.upper()) from error
        finally:
            await database.close()

    return asyncio.run(run())


@contextmanager
def _writing(target: Path) -> Generator[None]:
    try:
        yield
    except OSError as error:
        raise ConfigError(f"{target} cannot be written: {error.strerror}", code="CANNOT_WRITE") from error


@contextmanager
def _zip_file(target: Path) -> Generator[zipfile.ZipFile]:
    """Open a ZIP file that replaces the target only when it is complete."""
    partial = target.with_name(f"{target.name}.partial")
    with _writing(target):
        archive = zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED)
    try:
        with archive:
            yield archive
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def _refuse_other_file(target: Path, *, zipped: bool = True) -> None:
    """Raise if the file to write exists and is something else, such as the database: nothing would be left of it."""
    if target.is_file():
        with target.open("rb") as stream:
            start = stream.read(len(SQLITE_START))
        if start == SQLITE_START or (zipped and start and not start.startswith(ZIP_START)):
            raise ConfigError(f"{target} is a file of another kind, and is not overwritten", code="CANNOT_WRITE")


def _tables() -> list[Table]:
    """Return all tables, in order of their references."""
    return [table for table in Base.metadata.sorted_tables if table.name not in LEFT_OUT]


def _pack(row: Mapping[Any, Any]) -> dict[str, object]:
    return {
        str(name): {"base64": base64.b64encode(value).decode()} if isinstance(value, bytes) else value
        for name, value in row.items()
    }


def _unpack(row: Mapping[str, Any], table: Table) -> dict[str, Any]:
    """Return a row of a backup; only some columns hold bytes, because clients may store objects that look like them."""
    binary = {column.name for column in table.columns if isinstance(column.type, LargeBinary)}
    return {name: base64.b64decode(value["base64"]) if name in binary else value for name, value in row.items()}


def _batches(rows: Iterable[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    batch: list[dict[str, Any]] = []
    for row in rows:
        batch.append(row)
        if len(batch) >= ROWS_AT_ONCE:
            yield batch
            batch = []
    if batch:
        yield batch
