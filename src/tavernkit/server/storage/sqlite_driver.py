"""SQLite without a thread switch for every step.

aiosqlite runs each call in a separate thread. Most calls of a short transaction take microseconds, much less than the
thread switches; here, only calls that may take long, or wait for a slow disk, use the thread. With a busy event loop, a
thread runs only every few milliseconds, and nothing else can write to the file in the meantime.
"""

from __future__ import annotations

import asyncio
import random
import sqlite3
import time
from collections.abc import Callable
from typing import Any

import aiosqlite

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
