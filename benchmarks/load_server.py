"""``make load``: how much the service adds to a model's own time, at 1, 50 and 500 sessions.

A model stub answers after a fixed time; what a turn takes longer than that is the service's. The processor time of the
server's processes says more on a busy machine than the clock; beside it stands how long the disk takes to flush. With
``--http``, the model is a stub behind HTTP instead of one in the service's own process.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import cast

import uvloop

LATENCY = 1.0
SESSIONS = (1, 50, 500)
SECONDS = {1: 8.0, 50: 12.0, 500: 20.0}
QUICK_SECONDS = 3.0
WARM_UP_TURNS = 1
WORKERS = int(os.environ.get("TAVERNKIT_LOAD_WORKERS", "2"))
TARGET_MS = 15.0
MESSAGE = "Seven grey sails again, Aria. What does the storm glass say about Hern?"
SERVE = ("-m", "tavernkit")
STUB = """
[upstreams.stub]
dialect = "openai"
base_url = "http://127.0.0.1:{port}/v1"
api_key = "none"
"""
SCRIPTED = """
[upstreams.scripted]
dialect = "scripted"
latency = {latency}
"""


@dataclass(frozen=True)
class Load:
    """What a number of sessions has measured; times in milliseconds, without the model's."""

    sessions: int
    turns_per_second: float
    p50: float
    p99: float
    failed: int
    processor_ms: float
    """Of a turn, after the first two turns of each session."""
    processor_ms_of_all: float
    """Of a turn, with the first turns and with what workers load for them."""


@dataclass(frozen=True)
class Server:
    """A service that is ready."""

    port: int
    pid: int
    seconds: float
    """How long it took until it was ready."""
    processor_ms: float
    """And how much processor time."""
    folder: Path


def main() -> int:
    """Run the load and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, nargs="*", default=list(SESSIONS), help="how many talk at once")
    parser.add_argument("--seconds", type=float, help="how long, instead of 8, 12 and 20 seconds")
    parser.add_argument("--http", action="store_true", help="ask a model behind HTTP")
    parser.add_argument("--json", action="store_true", help="print one JSON object at the end")
    parser.add_argument("--model", type=int, metavar="PORT", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.model is not None:
        asyncio.run(_serve_model(options.model))
        return 0
    database = os.environ.get("TAVERNKIT_TEST_POSTGRES")
    with served(f"{database}/postgres" if database else None, http=options.http) as server:
        flush = _flush_ms(server.folder)
        print(f"a flush of the disk: {flush:.2f} ms; ready after {server.seconds:.1f} s", flush=True)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            name = "PostgreSQL" if database else "SQLite"
            loads, failure = runner.run(_report(server, name, options.sessions, options.seconds))
    if options.json:
        print(json.dumps({"flush_ms": flush, "ready_s": server.seconds, "loads": [asdict(each) for each in loads]}))
    return failure


@contextmanager
def served(database: str | None = None, *, http: bool = False, start: Sequence[str] = SERVE) -> Generator[Server]:
    """Start the service and wait until it is ready.

    Args:
        database: The address of its database, instead of SQLite.
        http: Use a model behind HTTP.
        start: The arguments of Python that start the command line.
    """
    port, model_port = _free_port(), _free_port()
    upstream = STUB.format(port=model_port) if http else SCRIPTED.format(latency=LATENCY)
    with tempfile.TemporaryDirectory() as folder:
        config = f'port = {port}\ndata = "{folder}"\nworkers = {WORKERS}\nlog_level = "warning"\n{upstream}'
        path = Path(folder) / "load.toml"
        path.write_text(config, encoding="utf-8")
        arguments = [sys.executable, *start, "serve", "--config", str(path)]
        if database:
            arguments += ["--db", database]
        model = [sys.executable, str(Path(__file__)), "--model", str(model_port)]
        stub = subprocess.Popen(model) if http else None
        began = time.perf_counter()
        server = subprocess.Popen(arguments, stdout=subprocess.DEVNULL)
        try:
            _wait(port, server)
            seconds = time.perf_counter() - began
            yield Server(port, server.pid, seconds, _processor_ms(server.pid), Path(folder))
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(60)
            if stub is not None:
                stub.kill()
                stub.wait(60)


async def _report(
    server: Server, database: str, wanted: Sequence[int], seconds: float | None
) -> tuple[list[Load], int]:
    print(f"{database}, {WORKERS} workers, a model that answers after {LATENCY:.1f} s; times of the service in ms")
    print("processor time of a turn: after the first two turns of each session (cpu), and of all turns (all)")
    print(f"{'sessions':>9} {'turns/s':>9} {'p50':>8} {'p99':>8} {'failed':>7} {'cpu':>7} {'all':>7}")
    found: list[Load] = []
    for sessions in wanted:
        load = await measure(server, sessions, seconds)
        found.append(load)
        times = f"{load.p50:>8.1f} {load.p99:>8.1f}"
        shown = f"{load.turns_per_second:>9.1f} {times} {load.failed:>7}"
        print(f"{sessions:>9} {shown} {load.processor_ms:>7.2f} {load.processor_ms_of_all:>7.2f}", flush=True)
    builds = _builds(server.port)
    print(f"one prompt's build: {builds:.1f} ms on average, {1000 / builds if builds else 0:.0f} builds/s a core")
    median = next((load.p50 for load in found if load.sessions == 50), 0.0)
    if median:
        verdict = "within" if median < TARGET_MS else "over"
        print(f"at 50 sessions a turn costs {median:.1f} ms (p50), {verdict} the {TARGET_MS:.0f} ms allowed")
    return found, 0 if median < TARGET_MS else 1


async def measure(server: Server, sessions: int, seconds: float | None = None) -> Load:
    """Let sessions talk to a service.

    Args:
        server: The service.
        sessions: How many.
        seconds: How long to measure, after a warm-up.
    """
    before = _processor_ms(server.pid)
    seconds = seconds or SECONDS.get(sessions, 20.0)
    added, failed, elapsed, turns, cost = await _load(server.port, sessions, server.pid, seconds)
    overall = (_processor_ms(server.pid) - before) / max(turns, 1)
    return Load(sessions, len(added) / elapsed, _percentile(added, 50), _percentile(added, 99), failed, cost, overall)


async def _load(port: int, sessions: int, pid: int, seconds: float) -> tuple[list[float], int, float, int, float]:
    added: list[float] = []
    failed = turns = 0
    started = time.perf_counter()
    measured_from = started + LATENCY * (WARM_UP_TURNS + 1)
    until = measured_from + seconds

    async def talk(number: int) -> None:
        nonlocal failed, turns
        await asyncio.sleep(number / sessions * LATENCY)
        transport, client = await asyncio.get_running_loop().create_connection(_Client, "127.0.0.1", port)
        body = {"model": "aria@preset", "messages": [{"role": "user", "content": MESSAGE}]}
        request = _request(json.dumps(body), f"load-{os.getpid()}-{sessions}-{number}")
        while (began := time.perf_counter()) < until:
            status = await client.ask(request)
            ended = time.perf_counter()
            turns += 1
            if status != 200:
                failed += 1
            elif began > measured_from:
                added.append((ended - began - LATENCY) * 1000)
        transport.close()

    async def cost_of_later_turns() -> float:
        await asyncio.sleep(measured_from + LATENCY - time.perf_counter())
        used, done = _processor_ms(pid), turns
        await asyncio.sleep(until - time.perf_counter())
        return (_processor_ms(pid) - used) / max(turns - done, 1)

    cost = asyncio.create_task(cost_of_later_turns())
    await asyncio.gather(*(talk(number) for number in range(sessions)))
    return added, failed, time.perf_counter() - measured_from, turns, await cost


def _processor_ms(pid: int) -> float:
    """Processor time that a process and those below it have used, in milliseconds; nought where there is no /proc."""
    used, waiting = 0, [pid]
    while waiting:
        each = Path("/proc") / str(waiting.pop())
        try:
            fields = (each / "stat").read_text().rsplit(") ", 1)[1].split()
            children = (each / "task" / each.name / "children").read_text().split()
        except (OSError, IndexError):
            continue
        used += int(fields[11]) + int(fields[12])
        waiting += [int(child) for child in children]
    return used * 1000 / os.sysconf("SC_CLK_TCK")


def _flush_ms(folder: Path) -> float:
    """The median time of a small write that is on the disk."""
    times: list[float] = []
    with (folder / "flush").open("wb") as file:
        for _ in range(50):
            began = time.perf_counter()
            file.write(b"x" * 4096)
            file.flush()
            os.fsync(file.fileno())
            times.append((time.perf_counter() - began) * 1000)
    return _percentile(times, 50)


def _request(body: str, session: str) -> bytes:
    head = "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    return f"{head}X-Tavern-Session: {session}\r\nContent-Length: {len(body.encode())}\r\n\r\n{body}".encode()


async def _serve_model(port: int) -> None:
    """Answer every request as OpenAI does, after the model's time."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        message = {"role": "assistant", "content": "*nods slowly.* Go on, tell me what you saw."}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        body = json.dumps({"id": "1", "object": "chat.completion", "created": 0, "model": "stub", "choices": [choice]})
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        while head_received := await _head(reader):
            length = re.search(rb"(?i)content-length: (\d+)", head_received)
            await reader.readexactly(int(length[1]) if length else 0)
            await asyncio.sleep(LATENCY)
            writer.write((head + body).encode())
        writer.close()

    async with await asyncio.start_server(talk, "127.0.0.1", port) as server:
        await server.serve_forever()


async def _head(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return b""


class _Client(asyncio.Protocol):
    """A connection that is kept. It does little, as clients share the machine with the service."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the connection."""
        self._transport = cast("asyncio.Transport", transport)

    def ask(self, request: bytes) -> asyncio.Future[int]:
        """Send a request; the result is the status of the answer."""
        self._received = b""
        self._status = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return self._status

    def data_received(self, data: bytes) -> None:
        """Wait until the whole answer is here."""
        self._received += data
        head, end, body = self._received.partition(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head)
        if end and length is not None and len(body) >= int(length[1]):
            self._status.set_result(int(head.split(b" ", 2)[1]))

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail what is still waited for."""
        status = getattr(self, "_status", None)
        if status is not None and not status.done():
            status.set_exception(exc or ConnectionError("the server closed the connection"))


def _builds(port: int) -> float:
    """The average time of a build, as the workers that answer measured it."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    values = {line.split(" ")[0]: float(line.split(" ")[1]) for line in lines if line.startswith("tavernkit_build")}
    count = values.get("tavernkit_build_seconds_count", 0)
    return values.get("tavernkit_build_seconds_sum", 0) / count * 1000 if count else 0.0


def _percentile(values: Sequence[float], percent: int) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)] if ordered else float("nan")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


def _wait(port: int, server: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and server.poll() is None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/ready", timeout=5):
                return
        except OSError:
            time.sleep(0.01)
    sys.exit("the server did not start")


if __name__ == "__main__":
    sys.exit(main())
