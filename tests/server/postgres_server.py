"""Runs a command with a PostgreSQL server of its own: ``python -m tests.server.postgres_server COMMAND …``.

Finds PostgreSQL, or installs Debian's package; the server lives on loopback, in a temporary folder, for that long.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

USER = "tavernkit"
START_SECONDS = 60
FSYNC = os.environ.get("TAVERNKIT_POSTGRES_FSYNC", "off")
"""Tests kill the service, never the database, so they need not wait for the disk; measurements say ``on``."""


def main() -> int:
    """Run the command and return its exit code."""
    folder = Path(tempfile.mkdtemp(prefix="tavernkit-postgres-"))
    # PostgreSQL refuses to run as root: then the package's own user runs it.
    account = "postgres" if os.geteuid() == 0 else None
    tools = _tools()
    if account is not None:
        shutil.chown(folder, account)
    quiet = {"user": account, "cwd": folder, "stdout": subprocess.DEVNULL}
    data = folder / "data"
    subprocess.run([tools / "initdb", "-D", data, "-U", USER, "-A", "trust", "-E", "UTF8"], check=True, **quiet)  # type: ignore[call-overload]
    port = _free_port()
    options = [
        "-h",
        "127.0.0.1",
        "-p",
        str(port),
        "-k",
        str(folder),
        "-c",
        f"fsync={FSYNC}",
        "-c",
        "max_connections=200",
    ]
    with (folder / "log").open("wb") as log:
        quiet["stdout"] = log.fileno()
        server = subprocess.Popen([tools / "postgres", "-D", data, *options], stderr=log, **quiet)  # type: ignore[call-overload]
    try:
        _wait(tools, port, server)
        environment = {**os.environ, "TAVERNKIT_TEST_POSTGRES": f"postgresql://{USER}@127.0.0.1:{port}"}
        return subprocess.run(sys.argv[1:], env=environment, check=False).returncode
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(30)
        shutil.rmtree(folder, ignore_errors=True)


def _tools() -> Path:
    found = _find()
    if found is None:
        print("PostgreSQL is not installed: installing Debian's package", flush=True)
        sudo = [] if os.geteuid() == 0 else ["sudo", "-n"]
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        subprocess.run([*sudo, "apt-get", "update", "-qq"], check=False, env=environment)
        subprocess.run([*sudo, "apt-get", "install", "-y", "-qq", "postgresql"], check=True, env=environment)
        found = _find()
    if found is None:
        sys.exit("PostgreSQL was not found and could not be installed: apt-get install postgresql")
    return found


def _find() -> Path | None:
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    on_path = shutil.which("initdb")
    folders += [Path(on_path).parent] if on_path else []
    return next((folder for folder in folders if (folder / "initdb").exists()), None)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _wait(tools: Path, port: int, server: subprocess.Popen[Any]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and server.poll() is None:
        ready = [tools / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(port)]
        if subprocess.run(ready, check=False).returncode == 0:
            return
        time.sleep(0.1)
    sys.exit("PostgreSQL did not start")


if __name__ == "__main__":
    sys.exit(main())
