"""SQLite without a thread switch for every step, and with one flush for many turns.

aiosqlite runs each call in a separate thread. Most calls of a short transaction take microseconds, much less than the
thread switches; here, only calls that may take long, or wait for a slow disk, use the thread. With a busy event loop, a
thread runs only every few milliseconds, and nothing else can write to the file in the meantime.

Transactions of turns that are ready at the same time are combined into one SQLite transaction, with one flush for all
of them, because a flush costs more than the statements of a turn. Each can fail and roll back on its own, and none ends
before the flush.
"""

from __future__ import annotations

import asyncio
import random
import sqlite3
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import aiosqlite
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

BUSY_MILLISECONDS = 30_000
"""How long a transaction waits for other processes."""
WAITING_STATEMENTS = ("PRAGMA", "DELETE")
"""Statements that may take long: deleting a chat deletes its 100,000 messages."""
QUICK_COMMIT_SECONDS = 0.002
SLOW_COMMITS = 2
"""After this many slow commits in a row, the next ones run in the thread."""
COMMITS_IN_THREAD = 100
FIRST_PAUSE, LAST_PAUSE = 0.0005, 0.01
"""Seconds between attempts to start a transaction while another process writes; SQLite's own pauses are longer."""
MOST_TOGETHER = 64
"""The maximum number of transactions flushed together."""


class CommitPace:
    """Tracks how fast the disk is, by the time of commits."""

    def __init__(self) -> None:
        self._slow = 0
        self._in_thread = 0

    def is_quick(self) -> bool:
        """Return True if the next commit need not run in the thread."""
        if self._in_thread:
            self._in_thread -= 1
            return False
        return True

    def note(self, seconds: float) -> None:
        """Record how long a direct commit took."""
        self._slow = self._slow + 1 if seconds > QUICK_COMMIT_SECONDS else 0
        if self._slow >= SLOW_COMMITS:
            self._slow, self._in_thread = 0, COMMITS_IN_THREAD


class PromptConnection(aiosqlite.Connection):
    """A connection that runs quick calls directly."""

    def __init__(self, connector: Callable[[], sqlite3.Connection], pace: CommitPace) -> None:
        super().__init__(connector, 64)
        self._pace = pace
        self.uses_thread = True
        """False while all statements run directly, even those that may take long."""

    @property
    def is_open(self) -> bool:
        """False as soon as the connection is asked to close, which its thread does later."""
        return self._running and self._connection is not None

    @property
    def direct(self) -> sqlite3.Connection:
        """SQLite's own connection, for fast statements."""
        connection = self._connection
        if connection is None or not self._running:  # used while its thread closes it, it could end the process
            raise ValueError("Connection closed")
        return connection

    async def begin_writing(self) -> None:
        """Start an exclusive writing transaction."""
        until, pause = time.monotonic() + BUSY_MILLISECONDS / 1000, FIRST_PAUSE
        while not self.try_to_begin(last=time.monotonic() >= until):
            await asyncio.sleep(pause * (0.5 + random.random()))
            pause = min(pause * 1.5, LAST_PAUSE)

    def try_to_begin(self, *, last: bool = False) -> bool:
        """Start a transaction; return False if another process is writing, or raise if this is the ``last`` attempt."""
        try:
            self.direct.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if last or "locked" not in str(error):
                raise
            return False
        return True

    async def end_writing(self) -> None:
        """Commit, directly if the disk is fast."""
        if self.commits_quickly():
            self.commit_now()
        else:
            await self.commit()

    def commits_quickly(self) -> bool:
        """Return True if the next commit need not run in the thread."""
        return self._pace.is_quick()

    def commit_now(self) -> None:
        """Commit directly, blocking the event loop."""
        began = time.perf_counter()
        self.direct.commit()
        self._pace.note(time.perf_counter() - began)

    def stop(self) -> asyncio.Future[Any] | None:
        """Close the connection in its thread, which then ends and would not answer a second request."""
        return super().stop() if self._running else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]  # it has no types

    async def close(self) -> None:
        """Close the connection, unless it is closing."""
        if self._running:
            await super().close()

    async def _connect(self) -> aiosqlite.Connection:
        try:
            return await super()._connect()
        except sqlite3.Error:
            self._thread.join()  # it is stopping, and would answer a loop that may be closed soon
            raise

    async def _execute(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if not self.is_open:
            raise ValueError("Connection closed")
        if self.uses_thread and _may_wait(fn, args):
            return await super()._execute(fn, *args, **kwargs)  # pyright: ignore[reportUnknownMemberType]  # it has no types
        return fn(*args, **kwargs)


def connector(path: str) -> Callable[[], PromptConnection]:
    """Return a factory of connections to a file; each is used by one task at a time, from any thread."""
    pace = CommitPace()

    def connect() -> PromptConnection:
        made = PromptConnection(lambda: sqlite3.connect(path, check_same_thread=False), pace)
        made._thread.daemon = True  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # as SQLAlchemy does
        return made

    return connect


def _may_wait(fn: Callable[..., Any], args: tuple[Any, ...]) -> bool:
    name = getattr(fn, "__name__", "")
    owner = getattr(fn, "__self__", None)
    if isinstance(owner, sqlite3.Connection):
        return name == "close" or (name == "commit" and owner.in_transaction)
    return name == "execute" and bool(args) and str(args[0]).startswith(WAITING_STATEMENTS)


class SQLiteWriter:
    """Runs writing transactions one after the other, those that are ready at the same time with one flush."""

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
