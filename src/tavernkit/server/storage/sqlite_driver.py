"""SQLite without a change of threads for every step.

aiosqlite hands each call to a thread of its own. Most calls of a short transaction take microseconds, far less than
the way there and back; only those that may wait for the disk or for another process's lock, or that may have much to
do, go that way here.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any

import aiosqlite

WAITING_STATEMENTS = ("BEGIN IMMEDIATE", "PRAGMA", "DELETE")
"""What may take long: a chat is deleted with its 100,000 messages."""


class PromptConnection(aiosqlite.Connection):
    """A connection whose quick calls are made at once."""

    async def _connect(self) -> aiosqlite.Connection:
        try:
            return await super()._connect()
        except sqlite3.Error:
            self._thread.join()  # it is stopping by now; it would answer a loop that may be closed soon
            raise

    async def _execute(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if not self._running or self._connection is None:
            raise ValueError("Connection closed")
        if _may_wait(fn, args):
            return await super()._execute(fn, *args, **kwargs)  # pyright: ignore[reportUnknownMemberType]  # it has no types
        return fn(*args, **kwargs)


def connector(path: str) -> Callable[[], PromptConnection]:
    """Makes connections to a file; each is used by one task at a time, whatever the thread."""

    def connect() -> PromptConnection:
        made = PromptConnection(lambda: sqlite3.connect(path, check_same_thread=False), 64)
        made._thread.daemon = True  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # as SQLAlchemy does
        return made

    return connect


def _may_wait(fn: Callable[..., Any], args: tuple[Any, ...]) -> bool:
    name = getattr(fn, "__name__", "")
    if isinstance(getattr(fn, "__self__", None), sqlite3.Connection):
        return name in ("commit", "close")
    return name == "execute" and bool(args) and str(args[0]).startswith(WAITING_STATEMENTS)
