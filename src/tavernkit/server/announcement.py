"""Listeners around a client: one tells who speaks where several do, one measures."""

from __future__ import annotations

import asyncio
import time

from tavernkit.models import ReplyPiece
from tavernkit.server.upstreams import Listener, Speaks


class AnnouncingListener:
    """Tells the speaker's name with the first piece: until then the request may still fail as a whole."""

    def __init__(self, inner: Listener, speaks: Speaks) -> None:
        self._inner = inner
        self._speaks: Speaks | None = speaks

    @property
    def streaming(self) -> bool:
        """Whether pieces are wanted."""
        return self._inner.streaming

    @property
    def gone(self) -> asyncio.Event:
        """Set when nobody listens any more."""
        return self._inner.gone

    async def piece(self, piece: ReplyPiece | Speaks) -> None:
        """Take a piece."""
        if self._speaks is not None:
            await self._inner.piece(self._speaks)
            self._speaks = None
        await self._inner.piece(piece)


class TimedListener:
    """Measures how long a model takes."""

    def __init__(self, inner: Listener) -> None:
        self._inner = inner
        self._began = time.perf_counter()
        self.first: float | None = None
        """Seconds until the first piece."""

    @property
    def seconds(self) -> float:
        """Seconds since the model was asked."""
        return time.perf_counter() - self._began

    @property
    def streaming(self) -> bool:
        """Whether pieces are wanted."""
        return self._inner.streaming

    @property
    def gone(self) -> asyncio.Event:
        """Set when nobody listens any more."""
        return self._inner.gone

    async def piece(self, piece: ReplyPiece | Speaks) -> None:
        """Take a piece."""
        if self.first is None:
            self.first = self.seconds
        await self._inner.piece(piece)
