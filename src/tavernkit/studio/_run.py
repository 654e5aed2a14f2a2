"""Running Studio on this machine."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable

import uvicorn

from tavernkit.errors import ConfigError
from tavernkit.studio._app import create_app
from tavernkit.studio._security import new_token
from tavernkit.studio._studio import Studio

HOST = "127.0.0.1"


def run_studio(studio: Studio, *, port: int = 0, opened: Callable[[str], object] = print) -> None:
    """Serve the page until the process is stopped.

    Args:
        studio: The Studio of the page.
        port: The port; any free one by default.
        opened: Called with the page's address, which has the token in it.

    Raises:
        ConfigError: The port is taken.
    """
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
