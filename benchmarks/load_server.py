"""``make load``: how much the service adds to a model's own time, at 1, 50 and 500 sessions.

A model stub answers after a fixed time; what a turn takes longer than that is the service's. The processor time of the
server's processes says more on a busy machine than the clock; beside it stands how long the disk takes to flush.
"""

from __future__ import annotations

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
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import uvloop

LATENCY = 1.0
SESSIONS = (1, 50, 500)
SECONDS = {1: 8.0, 50: 12.0, 500: 20.0}
WARM_UP_TURNS = 1
WORKERS = int(os.environ.get("TAVERNKIT_LOAD_WORKERS", "2"))
TARGET_MS = 15.0
MESSAGE = "Seven grey sails again, Aria. What does the storm glass say about Hern?"


def main() -> int:
    """Run the load and print a table."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        config = f"""
port = {port}
data = "{folder}"
workers = {WORKERS}
log_level = "warning"
[upstreams.scripted]
dialect = "scripted"
latency = {LATENCY}
"""
        path = Path(folder) / "load.toml"
        path.write_text(config, encoding="utf-8")
        arguments = [sys.executable, "-m", "tavernkit", "serve", "--config", str(path)]
        database = os.environ.get("TAVERNKIT_TEST_POSTGRES")
        if database:
            arguments += ["--db", f"{database}/postgres"]
        server = subprocess.Popen(arguments, stdout=subprocess.DEVNULL)
        try:
            began = time.perf_counter()
            _wait(port, server)
            started = time.perf_counter() - began
            print(f"a flush of the disk: {_flush_ms(Path(folder)):.2f} ms; ready after {started:.1f} s", flush=True)
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                return runner.run(_report(port, "PostgreSQL" if database else "SQLite", server.pid))
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(60)


async def _report(port: int, database: str, pid: int) -> int:
    print(f"{database}, {WORKERS} workers, a model that answers after {LATENCY:.1f} s; times of the service in ms")
    print("processor time of a turn: after the first two turns of each session (cpu), and of all turns (all)")
    print(f"{'sessions':>9} {'turns/s':>9} {'p50':>8} {'p99':>8} {'failed':>7} {'cpu':>7} {'all':>7}")
    median = 0.0
    for sessions in SESSIONS:
        before = _processor_ms(pid)
        added, failed, elapsed, turns, cost = await _load(port, sessions, pid)
        overall = (_processor_ms(pid) - before) / max(turns, 1)
        rate = len(added) / elapsed
        times = f"{_percentile(added, 50):>8.1f} {_percentile(added, 99):>8.1f}"
        shown = f"{rate:>9.1f} {times} {failed:>7} {cost:>7.2f} {overall:>7.2f}"
        print(f"{sessions:>9} {shown}", flush=True)
        if sessions == 50:
            median = _percentile(added, 50)
    builds = _builds(port)
    print(f"one prompt's build: {builds:.1f} ms on average, {1000 / builds if builds else 0:.0f} builds/s a core")
    verdict = "within" if median < TARGET_MS else "over"
    print(f"at 50 sessions a turn costs {median:.1f} ms (p50), {verdict} the {TARGET_MS:.0f} ms allowed")
    return 0 if median < TARGET_MS else 1


async def _load(port: int, sessions: int, pid: int) -> tuple[list[float], int, float, int, float]:
    added: list[float] = []
    failed = turns = 0
    started = time.perf_counter()
    measured_from = started + LATENCY * (WARM_UP_TURNS + 1)
    until = measured_from + SECONDS[sessions]

    async def talk(number: int) -> None:
        nonlocal failed, turns
        await asyncio.sleep(number / sessions * LATENCY)
        transport, client = await asyncio.get_running_loop().create_connection(_Client, "127.0.0.1", port)
        body = {"model": "aria@preset", "messages": [{"role": "user", "content": MESSAGE}]}
        session = {"session": f"load-{os.getpid()}-{sessions}-{number}"}
        request = _request(json.dumps({**body, "tavernkit": session}))
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


def _request(body: str) -> bytes:
    head = "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body.encode())}\r\n\r\n{body}".encode()


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


def _wait(port: int, server: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and server.poll() is None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/ready", timeout=5):
                return
        except OSError:
            time.sleep(0.1)
    sys.exit("the server did not start")


if __name__ == "__main__":
    sys.exit(main())
