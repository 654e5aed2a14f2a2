"""Studio in a service of several processes.

A workspace is in the memory of one process. The first process that gets a Studio request keeps the workspaces of all
clients and listens on a socket in a folder shared by all processes of the service; the others forward Studio's requests
to it. When it ends, the next process with a request takes over; unsaved work is lost.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Final

import httpx
import uvicorn
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tavernkit.server.api.dependencies import SafeJSONResponse
from tavernkit.server.errors import ServiceError
from tavernkit.studio._api import PREFIX

CONNECT_SECONDS: Final = 15.0
"""How long to wait for a process that has just taken over the workspaces."""
RETRY_SECONDS: Final = 0.05

_OF_THE_CONNECTION: Final = frozenset({b"connection", b"keep-alive", b"transfer-encoding", b"upgrade"})
"""Headers of a connection, which are not forwarded."""


class StudioKeeper:
    """Knows which process keeps the workspaces: this one, or another one that requests are forwarded to."""

    def __init__(self, folder: Path) -> None:
        """Make it.

        Args:
            folder: A private folder shared by all processes of the service.
        """
        self._folder = folder
        self._socket = str(folder / "studio.sock")
        self._lock: IO[bytes] | None = None
        self._server: tuple[_InnerServer, asyncio.Task[None]] | None = None
        self._client: httpx.AsyncClient | None = None

    async def handle(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request of Studio, or forward it.

        Args:
            app: Serves Studio if this process keeps the workspaces.
            scope: The ASGI scope of the request.
            receive: Returns the body.
            send: Sends the answer.
        """
        if self._keeps_workspaces(scope):
            await app(scope, receive, send)
        else:
            await self._forward(app, scope, receive, send)

    def _keeps_workspaces(self, scope: Scope) -> bool:
        """Return True if this process keeps the workspaces; it takes over if no other process does."""
        if self._lock is None:
            self._lock = _take_lock(self._folder / "studio.lock")
            if self._lock is not None:
                config = uvicorn.Config(
                    scope["app"], uds=self._socket, lifespan="off", log_config=None, access_log=False
                )
                server = _InnerServer(config)
                self._server = server, asyncio.create_task(server.serve())
        return self._lock is not None

    async def _forward(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        if self._client is None:
            transport = httpx.AsyncHTTPTransport(uds=self._socket, limits=httpx.Limits(max_connections=None))
            self._client = httpx.AsyncClient(transport=transport, timeout=httpx.Timeout(None))
        request = httpx.Request(
            scope["method"],
            httpx.URL("http://studio", raw_path=scope["raw_path"] + b"?" + scope["query_string"]),
            headers=[(name, value) for name, value in scope["headers"] if name not in _OF_THE_CONNECTION],
            content=_body(receive),
        )
        waited = 0.0
        while True:
            try:
                response = await self._client.send(request, stream=True)
                break
            except httpx.ConnectError:
                if self._keeps_workspaces(scope):  # the process that kept them has ended
                    await app(scope, receive, send)
                    return
                waited += RETRY_SECONDS
                if waited > CONNECT_SECONDS:
                    await _refuse(scope, receive, send)
                    return
                await asyncio.sleep(RETRY_SECONDS)
            except httpx.TransportError:
                await _refuse(scope, receive, send)
                return
        try:
            await _pass_back(response, receive, send)
        finally:
            await response.aclose()

    async def stop(self) -> None:
        """Let another process keep the workspaces."""
        if self._client is not None:
            await self._client.aclose()
        if self._server is not None:
            server, task = self._server
            server.should_exit = server.force_exit = True
            await task
        if self._lock is not None:
            self._lock.close()


class StudioForwarding:
    """The outermost middleware of one of several processes."""

    def __init__(self, app: ASGIApp, *, keeper: StudioKeeper) -> None:
        """Wrap an application.

        Args:
            app: The application.
            keeper: Decides where Studio's requests go.
        """
        self._app = app
        self._keeper = keeper

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] == "http" and scope["path"].startswith(f"{PREFIX}/"):
            await self._keeper.handle(self._app, scope, receive, send)
        else:
            await self._app(scope, receive, send)


class _InnerServer(uvicorn.Server):
    """A second server in the process; the main server handles signals."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Do not handle signals."""
        yield


def _take_lock(path: Path) -> IO[bytes] | None:
    """Lock a file for the lifetime of this process; None if another process has locked it."""
    import fcntl

    file = path.open("wb")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        return None
    os.set_inheritable(file.fileno(), False)
    return file


async def _body(receive: Receive) -> AsyncGenerator[bytes]:
    more = True
    while more:
        message = await receive()
        yield message.get("body", b"")
        more = message["type"] == "http.request" and message.get("more_body", False)


async def _pass_back(response: httpx.Response, receive: Receive, send: Send) -> None:
    """Forward an answer as it arrives, until it ends or the client disconnects."""

    async def pump() -> None:
        headers = [(name.lower(), value) for name, value in response.headers.raw]
        kept = [(name, value) for name, value in headers if name not in _OF_THE_CONNECTION]
        await send({"type": "http.response.start", "status": response.status_code, "headers": kept})
        async for chunk in response.aiter_raw():
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def disconnect() -> None:
        message: Message = {"type": ""}
        while message["type"] != "http.disconnect":
            message = await receive()

    pumping, gone = asyncio.create_task(pump()), asyncio.create_task(disconnect())
    try:
        await asyncio.wait((pumping, gone), return_when=asyncio.FIRST_COMPLETED)
        if pumping.done():
            pumping.result()
    finally:
        for task in (pumping, gone):
            task.cancel()
            with suppress(asyncio.CancelledError, httpx.TransportError):
                await task


async def _refuse(scope: Scope, receive: Receive, send: Send) -> None:
    error = ServiceError(503, "the process that keeps Studio's documents does not answer", code="studio_not_available")
    await SafeJSONResponse(error.body(), status_code=error.status)(scope, receive, send)
