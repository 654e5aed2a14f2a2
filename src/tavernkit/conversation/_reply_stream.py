"""A reply as it arrives."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from tavernkit._turns import OnPiece, Turn
from tavernkit.errors import ConfigError
from tavernkit.models._reply import ReplyPiece

StartTurn = Callable[[OnPiece], Coroutine[Any, Any, Turn]]
"""Starts a turn and passes its pieces to a function."""


class ReplyStream:
    """Iterates over the pieces of a turn; ``turn`` is available when it has ended.

    The turn starts when the first piece is requested. Leaving the loop early, ``aclose()``, or cancelling the
    task that reads stops the model and keeps the partial reply.
    """

    def __init__(self, start: StartTurn) -> None:
        self._start = start
        self._pieces: asyncio.Queue[ReplyPiece | None] = asyncio.Queue()
        self._task: asyncio.Task[Turn] | None = None
        self._reader: asyncio.Task[Any] | None = None
        self._closed = False

    @property
    def turn(self) -> Turn:
        """What the turn did.

        Raises:
            ConfigError: It has not ended.
        """
        if self._task is None or not self._task.done() or self._task.cancelled():
            raise ConfigError("read the stream to its end first: its turn is not complete", code="STREAM_NOT_ENDED")
        return self._task.result()

    @property
    def open_in_current_task(self) -> bool:
        """True while the turn runs and the running task is the one that reads its pieces."""
        running = self._task is not None and not self._task.done()
        return running and self._reader is asyncio.current_task()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ReplyPiece:
        if self._closed:
            raise StopAsyncIteration
        self._reader = asyncio.current_task()
        if self._task is None:
            self._task = asyncio.create_task(self._start(self._pieces.put_nowait))
            # The task must not reference this stream: garbage collection tells us that a loop was left.
            pieces = self._pieces
            self._task.add_done_callback(lambda _: pieces.put_nowait(None))
        try:
            piece = await self._pieces.get()
        except asyncio.CancelledError:
            await self.aclose()
            raise
        if piece is not None:
            return piece
        self._closed = True
        if not self._task.cancelled():
            self._task.result()
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Stop the model and keep the partial reply. Returns when the chat is saved."""
        self._closed = True
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task])
            if not self._task.cancelled():
                self._task.exception()  # of a reply that is no longer wanted

    def __del__(self) -> None:
        if self._task is not None and not self._task.done():
            with suppress(RuntimeError):  # its event loop is closed
                self._task.get_loop().call_soon_threadsafe(self._task.cancel)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()
