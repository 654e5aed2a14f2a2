"""Connections: SQLite with immediate transactions, or PostgreSQL."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from sqlalchemy import Column, MetaData, String, Table, event, func, insert, inspect, select
from sqlalchemy.engine import URL, Connection, make_url
from sqlalchemy.exc import DisconnectionError, InvalidatePoolError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine
from sqlalchemy.util import await_only

from tavernkit.errors import ConfigError, TavernKitError
from tavernkit.server.migrations import HEAD
from tavernkit.server.storage.sqlite import BUSY_MILLISECONDS, PromptConnection, SQLiteWriter, connector
from tavernkit.server.storage.tables import Base, dump_json

if TYPE_CHECKING:
    from alembic.config import Config

POOL_SIZE = 10
MAX_OVERFLOW = 20
POOL_SECONDS = 30.0
"""How long a request waits for a free connection before it is refused because the server is busy.

As long as turns wait for a slot: a turn that is refused after its model has answered is wasted.
"""
MIGRATION_LOCK = 0x7461766B
"""PostgreSQL's advisory lock for migrations: one worker migrates while others wait."""

PRAGMAS = (f"busy_timeout={BUSY_MILLISECONDS}", "journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON")

_PAUSE = 0.01
_USED = "used"
PING_SECONDS = 5.0
"""How long a connection to PostgreSQL may be idle and is still taken for alive: asking takes three round trips."""


class Database:
    """Short transactions. ``write`` excludes other writers on SQLite; on PostgreSQL rows are locked as they are read.

    Without ``create``, a missing file is an error.

    >>> async with database.write() as connection:                  # doctest: +SKIP
    ...     await connection.execute(statement)
    """

    def __init__(self, url: str, *, create: bool = True) -> None:
        parsed = _parse_url(url)
        self.sqlite = parsed.get_backend_name() == "sqlite"
        if self.sqlite and parsed.database in (None, "", ":memory:"):
            raise ConfigError("an SQLite database must be a file: sqlite:///path", code="INVALID_DATABASE")
        if self.sqlite and parsed.database:
            _find_file(Path(parsed.database), create=create)
        options: dict[str, Any] = {}
        pool: dict[str, Any] = {"pool_size": POOL_SIZE, "max_overflow": MAX_OVERFLOW, "pool_timeout": POOL_SECONDS}
        if self.sqlite and parsed.database:
            options = {"async_creator": connector(parsed.database)}
            pool["pool_size"] += 1  # the writing connection is never returned to the pool
        # Errors are logged, and the values of statements are prompts, replies and hashes of keys.
        try:
            self.engine = create_async_engine(
                parsed, hide_parameters=True, json_serializer=dump_json, **pool, **options
            )
        except (SQLAlchemyError, ModuleNotFoundError) as error:
            raise ConfigError(f"the database cannot be used: {error}", code="INVALID_DATABASE") from error
        self._writer = SQLiteWriter(self.engine) if self.sqlite else None
        if self.sqlite:
            event.listen(self.engine.sync_engine, "connect", _prepare_sqlite)
            event.listen(self.engine.sync_engine, "begin", _begin_sqlite)
        else:
            event.listen(self.engine.sync_engine, "checkout", _check_connection)
            event.listen(self.engine.sync_engine, "checkin", _note_use)

    @asynccontextmanager
    async def read(self, *, snapshot: bool = False) -> AsyncGenerator[AsyncConnection]:
        """A transaction that only reads.

        Args:
            snapshot: True if all queries must see the same moment, as they always do on SQLite.
        """
        async with self.engine.connect() as connection:
            if snapshot and not self.sqlite:
                await connection.execution_options(isolation_level="REPEATABLE READ")
            yield connection

    def write(self, *, together: bool = False) -> AbstractAsyncContextManager[AsyncConnection]:
        """A transaction that is committed at the end, or rolled back by an exception.

        Args:
            together: True if it is short and may share its flush with concurrent ones.
        """
        if self._writer is None:
            return self._write_to_postgres()
        return self._writer.together() if together else self._writer.alone()

    @asynccontextmanager
    async def _write_to_postgres(self) -> AsyncGenerator[AsyncConnection]:
        async with self.engine.begin() as connection:
            # Else SQLAlchemy begins with the first statement that it is given, and must be given it.
            adapter: Any = (await connection.get_raw_connection()).dbapi_connection
            try:
                await adapter._start_transaction()  # noqa: SLF001  # it has no other name
            except BaseException:
                await connection.invalidate()  # PostgreSQL may have begun one unnoticed
                raise
            yield connection

    async def migrate(self) -> None:
        """Update the tables."""
        async with self.read() as connection:
            if await connection.run_sync(_is_current):
                return
        async with self.write() as connection:
            if self.sqlite:
                await connection.begin()  # Alembic does not commit step by step inside an open transaction
            else:
                await connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({MIGRATION_LOCK})")
            await connection.run_sync(_update_tables)

    async def require_tables(self) -> None:
        """Raise if the tables are of another version."""
        async with self.read() as connection:
            if not await connection.run_sync(_is_current):
                message = "the database has no tables of this version of TavernKit: start the server to create them"
                raise ConfigError(message, code="INVALID_DATABASE")

    async def ping(self) -> None:
        """Raise if the database does not answer."""
        async with self.read() as connection:
            await connection.exec_driver_sql("SELECT 1")

    async def close(self) -> None:
        """Close all connections."""
        if self._writer is not None:
            await self._writer.close()
        await self.engine.dispose()


def driver_of(connection: AsyncConnection) -> Any:
    """Return the driver's own connection: aiosqlite's or asyncpg's."""
    return cast("Connection", connection.sync_connection).connection.driver_connection


async def advisory_lock(connection: AsyncConnection, name: str) -> None:
    """Hold a lock by name until the transaction ends. On SQLite, writing transactions wait for each other anyway."""
    if connection.dialect.name == "postgresql":
        await connection.execute(select(func.pg_advisory_xact_lock(func.hashtext(name))))


@contextmanager
def database_errors() -> Generator[None]:
    """Convert database errors to a one-line ConfigError."""
    try:
        yield
    except TavernKitError:
        raise
    # asyncpg raises TypeError or ValueError for options of a URL that it does not know.
    except (SQLAlchemyError, sqlite3.Error, OSError, TypeError, ValueError) as error:
        reason = str(getattr(error, "orig", None) or getattr(error, "strerror", None) or error)
        first = next(iter(reason.splitlines()), type(error).__name__)
        raise ConfigError(f"the database cannot be used: {first}", code="INVALID_DATABASE") from error


def _find_file(file: Path, *, create: bool) -> None:
    if not create:
        if not file.is_file():
            raise ConfigError(f"there is no database {str(file)!r}", code="INVALID_DATABASE")
        return
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        message = f"the database folder {str(file.parent)!r} cannot be created: {error.strerror}"
        raise ConfigError(message, code="INVALID_DATABASE") from error


def _parse_url(url: str) -> URL:
    try:
        parsed = make_url(url)
    except (SQLAlchemyError, ValueError):
        # Neither the URL nor the driver's message is shown, because they may contain a password.
        raise ConfigError("the database's URL cannot be read", code="INVALID_DATABASE") from None
    if parsed.drivername != "postgresql+asyncpg":
        return parsed
    # PostgreSQL's own option, which database hosts put into their URLs, has another name in asyncpg.
    return parsed.set(query={"ssl" if name == "sslmode" else name: value for name, value in parsed.query.items()})


def migration_config() -> Config:
    """Alembic's configuration for the packaged migrations."""
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent.parent / "migrations"))
    return config


def _is_current(connection: Connection) -> bool:
    if not inspect(connection).has_table("alembic_version"):
        return False
    return connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar() == HEAD


def _update_tables(connection: Connection) -> None:
    """Make the tables of an empty database at once; only older ones need Alembic, whose import takes 0.2 seconds."""
    if not inspect(connection).get_table_names():
        _create_tables(connection)
    elif not _is_current(connection):  # another process may have been faster
        run_migrations(connection)


def _create_tables(connection: Connection) -> None:
    Base.metadata.create_all(connection)
    version = Table("alembic_version", MetaData(), Column("version_num", String(32), primary_key=True))
    version.create(connection)
    connection.execute(insert(version).values(version_num=HEAD))


def run_migrations(connection: Connection) -> None:
    """Run all migrations that a database lacks."""
    from alembic import command
    from alembic.util import CommandError

    config = migration_config()
    config.attributes["connection"] = connection
    try:
        command.upgrade(config, "head")
    except CommandError as error:
        message = "the database was made by a newer version of TavernKit"
        raise ConfigError(f"{message}: {error}", code="INVALID_DATABASE") from error


def _check_connection(connection: Any, record: Any, _: object) -> None:
    """Replace a connection that is closed, still in a transaction, or does not answer after a pause."""
    used = record.info.get(_USED)
    if used is None:
        return  # it is new
    driver = connection.driver_connection
    if driver.is_closed():
        raise InvalidatePoolError("the connection is closed")
    if driver.is_in_transaction():
        # A task was cancelled while the transaction began: new writes would be part of it and never be committed.
        raise DisconnectionError("the connection is in a transaction")
    if time.monotonic() - used > PING_SECONDS:
        try:
            connection.ping()
        except Exception as error:
            raise InvalidatePoolError("the connection is lost") from error


def _note_use(connection: Any, record: Any) -> None:
    record.info[_USED] = time.monotonic()
    driver = connection.driver_connection if connection is not None else None
    if driver is not None and not driver.is_closed() and driver.is_in_transaction():
        driver.terminate()  # it holds locks that others wait for


def _prepare_sqlite(connection: Any, _: object) -> None:
    connection.isolation_level = None  # transactions are started below, not by the driver
    try:
        cursor = connection.cursor()
        for pragma in PRAGMAS:
            _set_pragma(cursor, pragma)
        cursor.close()
    except BaseException:
        connection.close()  # the pool does not know it yet
        raise


def _set_pragma(cursor: Any, pragma: str) -> None:
    """Set a pragma, with retries: SQLite does not wait while other connections set up a new file."""
    until = time.monotonic() + BUSY_MILLISECONDS / 1000
    while True:
        try:
            cursor.execute(f"PRAGMA {pragma}")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > until:
                raise
            await_only(asyncio.sleep(_PAUSE))
        else:
            return


def _begin_sqlite(connection: Connection) -> None:
    driver = cast("PromptConnection", connection.connection.driver_connection)
    if not driver.in_transaction:  # a writing transaction has started before SQLAlchemy's first call
        connection.exec_driver_sql("BEGIN")
