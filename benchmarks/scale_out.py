"""Several service processes, one database, a balancer in front, and one of them killed in mid-turn.

``make scale-out`` (PostgreSQL) prints what a client sees: turns a second before and after, requests that had to be
repeated, how long the longest wait was, and whether every session has each message once.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

LATENCY = 0.2
LEASE_SECONDS = 5.0
SESSIONS = 40
TURNS = 30
PATH = "/v1/chat/completions"


class Balancer:
    """Hands each connection to the next backend; one that does not take it is skipped. It knows nothing of sessions."""

    def __init__(self, ports: Sequence[int]) -> None:
        self._turn = itertools.cycle(ports)
        self._count = len(ports)
        self._server: asyncio.Server | None = None
        self.port = 0

    async def start(self) -> None:
        """Begin to listen."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Listen no more."""
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(self._count):
            try:
                backend = await asyncio.open_connection("127.0.0.1", next(self._turn))
            except OSError:
                continue
            await asyncio.gather(_pump(reader, backend[1]), _pump(backend[0], writer))
            return
        writer.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    with suppress(OSError):
        writer.close()


@dataclass
class Result:
    """What clients saw."""

    answered: list[float] = field(default_factory=list[float])
    """When each turn was answered."""
    waits: list[float] = field(default_factory=list[float])
    """Seconds of each turn, repetitions included."""
    repeated: int = 0
    """Requests that failed and were sent again."""
    killed_at: float = 0.0
    wrong: list[str] = field(default_factory=list[str])
    """Sessions whose messages are not what was said."""

    def rate(self, begin: float, end: float) -> float:
        """Turns a second between two moments."""
        return sum(begin <= moment < end for moment in self.answered) / max(end - begin, 1e-9)


async def run(
    database: str, folder: Path, *, sessions: int = SESSIONS, turns: int = TURNS, processes: int = 2
) -> Result:
    """Start processes on ports of their own, talk through a balancer, and kill the first when half is said.

    Args:
        database: The URL of the database.
        folder: Where settings are written.
        sessions: How many clients talk at once, each in its session.
        turns: How many turns each has.
        processes: How many service processes there are.
    """
    ports = [_free_port() for _ in range(processes)]
    servers = [_server(port, database, folder) for port in ports]
    balancer = Balancer(ports)
    result = Result()
    try:
        await asyncio.gather(*(asyncio.to_thread(_wait, port) for port in ports))
        await balancer.start()
        talks = [asyncio.create_task(_talk(balancer.port, number, turns, result)) for number in range(sessions)]
        while len(result.answered) < sessions * turns // 2:  # noqa: ASYNC110  # what many do is looked at, not told
            await asyncio.sleep(0.01)
        result.killed_at = time.perf_counter()
        servers[0].send_signal(signal.SIGKILL)
        await asyncio.gather(*talks)
        result.wrong = await asyncio.to_thread(_check, ports[-1], sessions, turns)
        return result
    finally:
        await balancer.stop()
        for server in servers:
            server.terminate()
        for server in servers:
            server.wait(60)


async def _talk(port: int, number: int, turns: int, result: Result) -> None:
    for turn in range(turns):
        body = json.dumps(
            {
                "model": "aria@preset",
                "messages": [{"role": "user", "content": f"word {turn} of {number}"}],
                "tavernkit": {"session": f"scale-{number}"},
            }
        )
        began = time.perf_counter()
        while not await _asked(port, body, f"scale-{number}-{turn}"):
            result.repeated += 1
            await asyncio.sleep(0.05)
        result.answered.append(time.perf_counter())
        result.waits.append(time.perf_counter() - began)


async def _asked(port: int, body: str, key: str) -> bool:
    """Send a request on a connection of its own; True if it was answered."""
    head = f"POST {PATH} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Type: application/json\r\n"
    head += f"Idempotency-Key: {key}\r\nContent-Length: {len(body.encode())}\r\n\r\n"
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"{head}{body}".encode())
        answer = await reader.read()
        writer.close()
    except OSError:
        return False
    return answer.startswith(b"HTTP/1.1 200")


def _check(port: int, sessions: int, turns: int) -> list[str]:
    """The sessions that have not each message once, in order, with its reply."""
    wrong: list[str] = []
    for number in range(sessions):
        listed = _get(port, f"/api/sessions?session=scale-{number}")
        session = json.loads(listed)["data"][0]["id"]
        lines = json.loads(_get(port, f"/api/sessions/{session}/messages"))["data"][1:]
        said = [line["content"] for line in lines if line["role"] == "user"]
        roles = [line["role"] for line in lines]
        if said != [f"word {turn} of {number}" for turn in range(turns)] or roles != ["user", "assistant"] * turns:
            wrong.append(f"scale-{number}")
    return wrong


def _server(port: int, database: str, folder: Path) -> subprocess.Popen[bytes]:
    config = folder / f"scale-{port}.toml"
    config.write_text(
        f'port = {port}\ndata = "{folder}"\nlog_level = "error"\nlease_seconds = {LEASE_SECONDS}\n'
        f'[upstreams.scripted]\ndialect = "scripted"\nlatency = {LATENCY}\n',
        encoding="utf-8",
    )
    command = [sys.executable, "-m", "tavernkit", "serve", "--config", str(config), "--db", database]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL)


def _get(port: int, path: str) -> bytes:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as answer:
        return answer.read()


def _wait(port: int) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        try:
            _get(port, "/ready")
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise TimeoutError("a server did not start")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


def main() -> int:
    """Run it and print what came of it."""
    database = os.environ.get("TAVERNKIT_TEST_POSTGRES")
    with tempfile.TemporaryDirectory() as name:
        url = f"{database}/postgres" if database else f"sqlite:///{name}/scale.db"
        result = asyncio.run(run(url, Path(name)))
    begin, end = min(result.answered), max(result.answered)
    waits = sorted(result.waits)
    print(f"{'PostgreSQL' if database else 'SQLite'}, {SESSIONS} sessions, a model that answers after {LATENCY} s")
    print(f"turns a second: {result.rate(begin, result.killed_at):.0f} with two, ", end="")
    print(f"{result.rate(result.killed_at, end):.0f} from the death of one on")
    print(f"requests that were repeated: {result.repeated}; turns: {len(waits)}")
    print(f"a turn: median {waits[len(waits) // 2]:.2f} s, longest {waits[-1]:.2f} s (leases of {LEASE_SECONDS:.0f} s)")
    print(f"sessions with a message lost or doubled: {len(result.wrong)}")
    return 1 if result.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
