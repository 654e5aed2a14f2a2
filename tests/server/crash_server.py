"""A server that can be started and killed often: everything is imported once, each life is a fork.

Reads ``start`` from stdin and prints the pid of each life. Settings come as JSON in the first argument.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys

import uvicorn

from tavernkit import count_tokens, load
from tavernkit import silly_tavern as st
from tavernkit.examples import example_path
from tavernkit.server import ServerConfig, create_app
from tavernkit.server.upstreams.example_model import ExampleModel


def warm_up() -> None:
    """Load before the first life what each would load anew."""
    card = load(example_path("aria.json")).character
    book = st.WorldBook.load(example_path("tidewatch.json"))
    st.Builder(character=card, books=[book]).build(message="Hello {{incvar::count}}")
    count_tokens("Beldunhal")


def main() -> None:
    """Serve commands until stdin ends."""
    settings, descriptor = json.loads(sys.argv[1]), int(sys.argv[2])
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    listening = socket.socket(fileno=descriptor)
    warm_up()
    app = create_app(ServerConfig.model_validate(settings), upstream_models={"scripted": ExampleModel(latency=0.01)})
    for _ in sys.stdin:
        pid = os.fork()
        if pid == 0:
            server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False))
            asyncio.run(server.serve(sockets=[listening]))
            os._exit(0)
        print(pid, flush=True)


if __name__ == "__main__":
    main()
