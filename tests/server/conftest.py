"""Servers for tests: in this process over ASGI, and real ones on loopback."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from fastapi import FastAPI

from tavernkit.server import ServerConfig, Service, create_app
from tests.server.databases import database_url

BASE = "http://127.0.0.1"


class Client(httpx.AsyncClient):
    """A client of a server in this process; ``service`` is its inside."""

    service: Service


StartApp = Callable[..., AbstractAsyncContextManager[Client]]


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, object]:
    """The settings servers start with; tests may change them. ``user`` is a short way to name a session."""
    return {"data": tmp_path, "user_is_session": True, **database_url()}


@asynccontextmanager
async def running(app: FastAPI) -> AsyncIterator[Client]:
    """A client of an application whose start and stop are run."""
    async with contextlib.AsyncExitStack() as stack:
        await stack.enter_async_context(app.router.lifespan_context(app))
        client = Client(transport=httpx.ASGITransport(app=app), base_url=BASE)
        client.service = app.state.service
        yield await stack.enter_async_context(client)


@pytest.fixture
def start(settings: dict[str, object]) -> StartApp:
    """Start a server in this process, with a model of one's own and other settings at will."""

    def begin(model: object = None, **changes: object) -> AbstractAsyncContextManager[Client]:
        named = changes.pop("models", None)
        config = ServerConfig.model_validate({**settings, **changes})
        models = {"scripted": model} if model is not None else named
        return running(create_app(config, upstream_models=models))  # type: ignore[arg-type]

    return begin


@pytest.fixture
async def client(start: StartApp) -> AsyncIterator[Client]:
    """A fresh server."""
    async with start() as client:
        yield client


@contextlib.contextmanager
def on_loopback(app: FastAPI) -> Iterator[str]:
    """A real server on a free port of this machine, in a thread; gives its address."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None, access_log=False))
    started = threading.Event()
    startup = server.startup

    async def noted(sockets: object = None) -> None:
        await startup(sockets)  # type: ignore[arg-type]
        started.set()

    server.startup = noted  # type: ignore[method-assign]
    thread = threading.Thread(target=lambda: asyncio.run(server.serve()), daemon=True)
    thread.start()
    assert started.wait(30)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(30)


@pytest.fixture
def loopback(settings: dict[str, object]) -> Callable[..., contextlib.AbstractContextManager[str]]:
    """Start a real server."""

    def begin(model: Any = None, **changes: object) -> contextlib.AbstractContextManager[str]:
        config = ServerConfig.model_validate({**settings, **changes})
        return on_loopback(create_app(config, upstream_models={"scripted": model} if model is not None else None))

    return begin
