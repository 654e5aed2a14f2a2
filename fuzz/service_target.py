"""Requests to the service: whatever is sent, the answer is no error of the server's."""

from __future__ import annotations

import asyncio
import atexit
import json
import tempfile
from collections.abc import Iterator
from contextlib import AsyncExitStack
from functools import cache
from typing import Any

from fuzz.target import Target

BASE = "http://127.0.0.1"


class _Service:
    """A server in this process, with a model that answers by itself, and one session."""

    def __init__(self) -> None:
        from httpx import ASGITransport, AsyncClient

        from tavernkit.server import ServerConfig, create_app

        folder = tempfile.TemporaryDirectory()
        self._loop = asyncio.new_event_loop()
        self._stack = AsyncExitStack()
        config = ServerConfig.model_validate({"data": folder.name, "busy_seconds": 0, "max_imports": 100})
        self.app = create_app(config)
        self._client = AsyncClient(transport=ASGITransport(app=self.app), base_url=BASE)
        self._loop.run_until_complete(self._start())
        atexit.register(self._stop, folder)

    async def _start(self) -> None:
        await self._stack.enter_async_context(self.app.router.lifespan_context(self.app))
        reply = await self._client.post("/api/sessions", json={"model": "aria"})
        self.session = str(reply.json()["id"])

    def _stop(self, folder: tempfile.TemporaryDirectory[str]) -> None:
        self._loop.run_until_complete(self._stack.aclose())
        folder.cleanup()

    def ask(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        """Send a JSON body; what the path calls SESSION is there."""
        path = path.replace("SESSION", self.session)
        sent = self._client.request(method, path, content=body, headers={"content-type": "application/json"})
        reply = self._loop.run_until_complete(asyncio.wait_for(sent, 30))
        return reply.status_code, reply.content


@cache
def _service() -> _Service:
    return _Service()


@cache
def _routes() -> list[tuple[str, str]]:
    """Every route that takes JSON, with names in its path that exist."""
    known = {"session_id": "SESSION", "kind": "regenerate", "plural": "characters", "item_id": "aria"}
    found: list[tuple[str, str]] = []
    for path, operations in _service().app.openapi()["paths"].items():
        for name in [part[1:-1] for part in path.split("/") if part.startswith("{")]:
            path = path.replace(f"{{{name}}}", known.get(name, "nothing"))
        for method, operation in operations.items():
            if "application/json" in operation.get("requestBody", {}).get("content", {}):
                found.append((method.upper(), path))
    return sorted(found)


def _request(data: bytes) -> None:
    """Ask a route: the first line is its number among those that take JSON, the rest is the body."""
    number, _, body = data.partition(b"\n")
    routes = _routes()
    method, path = routes[(int(number[:4]) if number[:4].isdigit() else len(number)) % len(routes)]
    status, content = _service().ask(method, path, body)
    # What the service has no key or room for is told with a status of its own.
    assert status in (501, 503) or status < 500, (method, path, status, content[:300])
    if status >= 400:
        assert "error" in json.loads(content), (method, path, content[:300])


BODIES: tuple[dict[str, Any], ...] = (
    {},
    {"model": "aria", "messages": [{"role": "user", "content": "hi"}], "stream": True, "max_tokens": 5},
    {"model": "aria", "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}], "max_tokens": 5},
    {"model": "aria", "prompt": "hi", "n": 1, "stop": ["x"], "temperature": 0.5, "tools": [], "user": "u"},
    {"model": "aria", "input": ["hi"], "metadata": {"session": "s", "regenerate": True}},
    {"content": "hi", "name": "n", "swipe": 0, "message_id": "nothing", "settings": {"preset": "p"}, "books": ["b"]},
    {"name": "n", "scopes": ["chat"], "rate_limit": 5, "api_key": "k", "members": ["aria"], "variables": {"a": 1}},
)


def _seeds() -> Iterator[bytes]:
    for number in range(60):
        yield f"{number:04}\n{json.dumps(BODIES[number % len(BODIES)])}".encode()
    for body in BODIES:
        yield b"0000\n" + json.dumps(body).encode()


TARGET = Target("http_bodies", _request, (), tuple(_seeds()), prepare=_routes)
