"""The connection that writes to SQLite.

Transactions of turns that are ready at the same time are combined into one SQLite transaction, with one flush for all
of them, because a flush costs more than the statements of a turn. Each can fail and roll back on its own, and none ends
before the flush.
"""

from __future__ import annotations

import asyncio
import random
import sqlite3
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from tavernkit.server.storage.sqlite_driver import BUSY_MILLISECONDS, FIRST_PAUSE, LAST_PAUSE, PromptConnection

MOST_TOGETHER = 64
"""The maximum number of transactions flushed together."""


class SQLiteWriter:
    """Runs writing transactions one after the other."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine
        # Writers of this process queue here, because SQLite's own pauses are long compared to a transaction.
        self._lock = asyncio.Lock()
        self._opened: tuple[AsyncConnection, PromptConnection] | None = None
        self._waiting: list[asyncio.Future[None]] = []
        self._is_called = False
        """True if waiting tasks are about to be woken."""
        self._is_called_later = False
        """True if they are woken when the connection is free."""
        self._unflushed: list[asyncio.Future[None]] = []
        """Tasks whose transactions only wait for the flush."""
        self._commits_soon = False
        self._is_late = False
        """True if the flush waits for the running transaction."""
        self._committing: asyncio.Task[None] | None = None
        self._pause, self._retry_at = FIRST_PAUSE, 0.0

    @asynccontextmanager
    async def alone(self) -> AsyncGenerator[AsyncConnection]:
        """Run a transaction with its own flush; it may take long."""
        async with self._locked():
            self._flush()
            connection, driver = await self._open()
            await driver.begin_writing()
            try:
                yield connection
            except BaseException:
                await self._roll_back(connection, driver)
                raise
            try:
                await self._commit(connection, driver)
            except BaseException:
                await connection.invalidate()  # its thread may still commit
                await self._drop(connection)
                raise

    @asynccontextmanager
    async def together(self) -> AsyncGenerator[AsyncConnection]:
        """Run a short transaction, which may share its flush with others."""
        connection, driver = await self._begin()
        try:
            shared = bool(self._unflushed)
            driver.uses_thread = False  # SQLAlchemy closes the connection if a task that waits for it is cancelled
            try:
                if shared:
                    driver.direct.execute("SAVEPOINT one")
                yield connection
                if shared:
                    driver.direct.execute("RELEASE one")
            except BaseException as error:
                if not shared:
                    await self._roll_back(connection, driver)
                elif driver.direct.in_transaction:
                    driver.direct.execute("ROLLBACK TO one")
                    driver.direct.execute("RELEASE one")
                else:  # a full disk, for instance, ends the whole transaction
                    self._report_flush(error)
                raise
            flushed = asyncio.get_running_loop().create_future()
            self._unflushed.append(flushed)
        finally:
            driver.uses_thread = True
            self._release()
            if self._is_late or not self._commits_soon:
                self._commit_soon()
        await flushed

    async def close(self) -> None:
        """Flush pending transactions and close the connection."""
        if self._committing is not None:
            await self._committing
        async with self._locked():
            self._flush()
            opened, self._opened = self._opened, None
            if opened is not None:
                await opened[0].close()

    async def _open(self) -> tuple[AsyncConnection, PromptConnection]:
        if self._opened is not None and not self._opened[1].is_open:
            await self._drop(self._opened[0])
        if self._opened is None:
            connection = await self._engine.connect()
            driver = (await connection.get_raw_connection()).driver_connection
            assert isinstance(driver, PromptConnection)
            driver.direct.execute("PRAGMA busy_timeout=0")  # let other tasks work while waiting for another process
            self._opened = connection, driver
        return self._opened

    async def _begin(self) -> tuple[AsyncConnection, PromptConnection]:
        """Wait for the lock; return the connection inside a transaction."""
        loop = asyncio.get_running_loop()
        until = loop.time() + BUSY_MILLISECONDS / 1000
        while True:
            turn = loop.create_future()
            self._waiting.append(turn)
            if not self._is_called:
                self._is_called = True
                if self._retry_at:
                    loop.call_at(self._retry_at, self._wake)
                else:
                    loop.call_soon(self._wake)
            await turn
            await self._lock.acquire()
            try:
                connection, driver = await self._open()
                if driver.direct.in_transaction:
                    return connection, driver
                if loop.time() >= self._retry_at and driver.try_to_begin(last=loop.time() >= until):
                    self._pause, self._retry_at = FIRST_PAUSE, 0.0
                    return connection, driver
            except BaseException:
                self._release()
                raise
            self._release()
            if loop.time() >= self._retry_at:  # another process writes
                self._retry_at = loop.time() + self._pause * (0.5 + random.random())
                self._pause = min(self._pause * 1.5, LAST_PAUSE)

    def _wake(self) -> None:
        """Wake waiting tasks so that they run one right after the other, followed by the flush.

        Other processes cannot write in the meantime, so nothing else should run in between.
        """
        if self._lock.locked():
            self._is_called_later = True  # tasks that arrive until then are flushed together as well
            return
        loop = asyncio.get_running_loop()
        woken, self._waiting = self._waiting[:MOST_TOGETHER], self._waiting[MOST_TOGETHER:]
        self._is_called = bool(self._waiting)
        for turn in woken:
            if not turn.done():
                turn.set_result(None)
        self._commits_soon = True
        loop.call_soon(self._commit_soon)
        if self._is_called:
            loop.call_soon(self._wake)

    @asynccontextmanager
    async def _locked(self) -> AsyncGenerator[None]:
        await self._lock.acquire()
        try:
            yield
        finally:
            self._release()

    def _release(self) -> None:
        self._lock.release()
        if self._is_called_later:
            self._is_called_later = False
            asyncio.get_running_loop().call_soon(self._wake)

    def _commit_soon(self) -> None:
        """Flush directly if the disk is fast, else in the thread."""
        self._commits_soon = self._is_late = False
        if not self._unflushed or self._committing is not None:
            return
        if self._lock.locked():
            self._is_late = True
            return
        assert self._opened is not None
        connection, driver = self._opened
        if driver.commits_quickly() and not connection.in_transaction():
            self._flush()
        else:
            self._committing = asyncio.create_task(self._commit_in_turn())

    def _flush(self) -> None:
        """Commit pending transactions now."""
        if not self._unflushed or self._opened is None:
            return
        try:
            self._opened[1].commit_now()
        except sqlite3.Error as error:
            self._report_flush(error)
        else:
            self._report_flush()

    async def _commit_in_turn(self) -> None:
        try:
            async with self._locked():
                if self._unflushed and self._opened is not None:
                    try:
                        await self._commit(*self._opened)
                    except Exception as error:  # noqa: BLE001  # those who wait get it
                        self._report_flush(error)
                    else:
                        self._report_flush()
        finally:
            self._committing = None

    async def _commit(self, connection: AsyncConnection, driver: PromptConnection) -> None:
        await driver.end_writing()
        if connection.in_transaction():
            await connection.commit()  # nothing is left to commit, which SQLAlchemy cannot know

    async def _roll_back(self, connection: AsyncConnection, driver: PromptConnection) -> None:
        if connection.invalidated or not driver.is_open:  # cancelled while its thread ran a statement
            await self._drop(connection)
            return
        driver.direct.rollback()
        if connection.in_transaction():
            await connection.rollback()

    async def _drop(self, connection: AsyncConnection) -> None:
        """Forget a connection; the next transaction opens another."""
        self._opened = None
        await connection.close()

    def _report_flush(self, error: BaseException | None = None) -> None:
        """Notify tasks that wait for the flush of its outcome."""
        waited, self._unflushed = self._unflushed, []
        if error is not None and self._opened is not None:
            with suppress(sqlite3.Error):
                self._opened[1].direct.rollback()
        for flushed in waited:
            if flushed.done():
                continue
            if error is None:
                flushed.set_result(None)
            else:
                flushed.set_exception(error)
