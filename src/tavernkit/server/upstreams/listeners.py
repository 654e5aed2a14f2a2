"""Clients that wait for a reply, and wrappers that announce speakers, measure time and store partial replies."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from tavernkit._values import JsonObject
from tavernkit.models import ReplyPiece
from tavernkit.server.limits import KEPT_CHARACTERS, KEPT_SECONDS


@dataclass(frozen=True, slots=True)
class SpeakerChange:
    """The speaker from here on; ``lead`` is the text before the reply if all replies are joined."""

    speaker: str
    lead: str


class Listener(Protocol):
    """A client that waits for a reply."""

    @property
    def streaming(self) -> bool:
        """True if the client wants pieces."""
        ...

    @property
    def gone(self) -> asyncio.Event:
        """Set when the client has disconnected."""
        ...

    async def piece(self, piece: ReplyPiece | SpeakerChange) -> None:
        """Receive a piece; may wait for a slow client."""
        ...


class ClientDisconnectedError(Exception):
    """The client disconnected before the model said anything."""


class _Around:
    """A listener that wraps another one."""

    def __init__(self, inner: Listener) -> None:
        self._inner = inner

    @property
    def streaming(self) -> bool:
        """True if the client wants pieces."""
        return self._inner.streaming

    @property
    def gone(self) -> asyncio.Event:
        """Set when the client has disconnected."""
        return self._inner.gone


class AnnouncingListener(_Around):
    """Announces the speaker with the first piece: until then the whole request may still fail."""

    def __init__(self, inner: Listener, speaks: SpeakerChange) -> None:
        super().__init__(inner)
        self._speaks: SpeakerChange | None = speaks

    async def piece(self, piece: ReplyPiece | SpeakerChange) -> None:
        """Receive a piece."""
        if self._speaks is not None:
            await self._inner.piece(self._speaks)
            self._speaks = None
        await self._inner.piece(piece)


class QuietListener(_Around):
    """Hides a reply from the client, for requests outside the chat."""

    @property
    def streaming(self) -> bool:
        """False: the client wants no pieces."""
        return False

    async def piece(self, piece: ReplyPiece | SpeakerChange) -> None:
        """Drop a piece."""


class TimedListener(_Around):
    """Measures how long a model takes, and hears what it says."""

    def __init__(self, inner: Listener, heard: list[str] | None = None) -> None:
        """Wrap a client.

        Args:
            inner: The client.
            heard: Receives the pieces of the text.
        """
        super().__init__(inner)
        self._heard = heard
        self._began = time.perf_counter()
        self.first: float | None = None
        """Seconds until the first piece."""

    @property
    def seconds(self) -> float:
        """Seconds since the model was asked."""
        return time.perf_counter() - self._began

    async def piece(self, piece: ReplyPiece | SpeakerChange) -> None:
        """Receive a piece."""
        if self.first is None:
            self.first = self.seconds
        if self._heard is not None and isinstance(piece, ReplyPiece) and piece.text:
            self._heard.append(piece.text)
        await self._inner.piece(piece)


class KeepingListener(_Around):
    """Stores the reply so far from time to time, so that a dying process loses at most the last second."""

    def __init__(self, inner: Listener, store: Callable[[list[JsonObject]], Awaitable[None]]) -> None:
        """Wrap a client.

        Args:
            inner: The client.
            store: Stores the replies so far, by speaker.
        """
        super().__init__(inner)
        self._store = store
        self._said: list[tuple[str | None, list[str]]] = []
        self._stored = self._unstored = 0
        self._much = asyncio.Event()
        self._storing = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    async def piece(self, piece: ReplyPiece | SpeakerChange) -> None:
        """Receive a piece."""
        if isinstance(piece, SpeakerChange):
            self._said.append((piece.speaker, []))
        elif piece.text:
            if not self._said:
                self._said.append((None, []))
            self._said[-1][1].append(piece.text)
            self._unstored += len(piece.text)
            # All of a text is stored each time: in equal steps, what is written would grow with its square.
            if self._unstored >= max(KEPT_CHARACTERS, self._stored // 8):
                self._much.set()
            if self._task is None:
                self._task = asyncio.create_task(self._keep())
        await self._inner.piece(piece)

    async def close(self) -> None:
        """Stop storing: the whole reply is stored now."""
        async with self._storing:
            if self._task is not None:
                self._task.cancel()

    async def _keep(self) -> None:
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._much.wait(), KEPT_SECONDS)
            if not self._unstored:
                continue
            async with self._storing:
                self._much.clear()
                self._stored, self._unstored = self._stored + self._unstored, 0
                await self._store([{"speaker": name, "text": "".join(texts)} for name, texts in self._said])
