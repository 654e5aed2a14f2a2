"""Studio as an application of its own, for one person on this machine."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from tavernkit import __version__
from tavernkit.errors import ConfigError
from tavernkit.studio._api import PREFIX, StudioResponse, page_router, router, talk_router
from tavernkit.studio._security import Guard, error_body, new_token
from tavernkit.studio._studio import Studio

HOST = "127.0.0.1"


def create_app(studio: Studio, *, token: str) -> FastAPI:
    """Make the application.

    Args:
        studio: The Studio of the page.
        token: The secret that the page must send.
    """
    app = FastAPI(title="TavernKit Studio", version=__version__, openapi_url=None)

    async def find_studio(request: Request) -> Studio:
        del request
        return studio

    app.state.find_studio = find_studio
    for each in (router, talk_router, page_router):
        app.include_router(each)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(RecursionError, _too_deep)
    app.add_middleware(Guard, token=token, prefix=PREFIX)
    return app


async def _invalid(request: Request, error: Exception) -> Response:
    del request
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"] if part != "body")
    return StudioResponse(error_body(422, f"{where}: {first['msg']}", "invalid_request", where), status_code=422)


async def _http_error(request: Request, error: Exception) -> Response:
    del request
    assert isinstance(error, HTTPException)
    return StudioResponse(error_body(error.status_code, str(error.detail), "http_error"), status_code=error.status_code)


async def _too_deep(request: Request, error: Exception) -> Response:
    del request, error
    return StudioResponse(error_body(400, "the request nests too deeply", "nested_too_deeply"), status_code=400)


def run_studio(studio: Studio, *, port: int = 0, opened: Callable[[str], object] = print) -> None:
    """Serve the page until the process is stopped.

    Args:
        studio: The Studio of the page.
        port: The port; any free one by default.
        opened: Called with the page's address, which has the token in it.

    Raises:
        ConfigError: The port is taken.
    """
    import uvicorn

    token = new_token()
    threading.Thread(target=studio.warm_up, daemon=True).start()
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if os.name == "posix":
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((HOST, port))
        listening.listen(128)  # a browser that connects before the server is ready waits for it
    except OSError as error:
        listening.close()
        raise ConfigError(f"cannot listen on {HOST}:{port}: {error.strerror}", code="CANNOT_LISTEN") from error
    # The part after # stays in the browser: it is in no log and in no request.
    opened(f"http://{HOST}:{listening.getsockname()[1]}/#token={token}")
    config = uvicorn.Config(
        create_app(studio, token=token), log_config=None, access_log=False, server_header=False,
        timeout_graceful_shutdown=2,
    )  # fmt: skip
    try:
        uvicorn.Server(config).run(sockets=[listening])
    finally:
        listening.close()
