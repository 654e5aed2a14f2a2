"""A loopback server that answers from a list, for the protocols of Anthropic and Google."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from tavernkit.testing import HttpReply, HttpRequest, LoopbackServer


@dataclass
class Wire:
    """One answer on the wire: a JSON body, or server-sent events (``hang`` leaves the stream open after them)."""

    body: Any = None
    status: int = 200
    events: Sequence[Any] | None = None
    hang: bool = False
    drop: bool = False
    raw: bytes | None = None
    headers: dict[str, str] = field(default_factory=dict)

    def reply(self) -> HttpReply:
        if self.raw is not None:
            return HttpReply(self.status, self._portions([self.raw]), "text/event-stream", self.headers, self.drop)
        if self.events is None:
            return HttpReply(self.status, json.dumps(self.body).encode(), headers=self.headers, drop=self.drop)
        blocks = [self._block(event) for event in self.events]
        return HttpReply(self.status, self._portions(blocks), "text/event-stream", self.headers, self.drop)

    def _block(self, event: Any) -> bytes:
        name = f"event: {event['type']}\n" if "type" in event else ""
        return f"{name}data: {json.dumps(event)}\n\n".encode()

    async def _portions(self, blocks: Sequence[bytes]) -> AsyncIterator[bytes]:
        for block in blocks:
            yield block
        if self.hang:
            await asyncio.Event().wait()


@asynccontextmanager
async def serve_wire(*answers: Wire) -> AsyncGenerator[LoopbackServer]:
    remaining = list(answers)

    async def handle(_: HttpRequest) -> HttpReply:
        answer = remaining.pop(0)
        if answer.hang and answer.events is None:
            await asyncio.Event().wait()
        return answer.reply()

    async with LoopbackServer(handle).running() as server:
        yield server


def sent_json(server: LoopbackServer, position: int = -1) -> Any:
    return json.loads(server.requests[position].body)
