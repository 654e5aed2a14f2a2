"""``python -m benchmarks.turn_profile``: where the processor time of a turn of the service goes (on Linux).

The service runs with many sessions while its workers sample their own stacks, every few milliseconds of processor time.
A sample belongs to the innermost of its functions that ``PARTS`` names; ``--detail`` also shows what the rest is.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from types import CodeType, FrameType

import uvloop

SESSIONS = 500
SECONDS = 20.0
SAMPLES_VARIABLE, DETAIL_VARIABLE = "TAVERNKIT_SAMPLES", "TAVERNKIT_SAMPLES_DETAIL"
INTERVAL = 0.002
REST = "rest"

PARTS: Mapping[str, tuple[str, ...]] = {
    "build": (
        "tavernkit.server.turns.scheduling:BuildExecutor.run",
        "tavernkit.server.turns.scheduling:BuildExecutor._timed",
        "tavernkit.server.turns.scheduling:BuildExecutor._at_once",
    ),
    "http": (
        "uvicorn.protocols",
        "uvicorn.middleware",
        "httptools",
        "starlette",
        "fastapi",
        "tavernkit.server.api",
    ),
    "open": ("tavernkit.server.turns.turn_log:TurnLog.open",),
    "finish": ("tavernkit.server.turns.turn_log:TurnLog.finish",),
    "lines": (
        "tavernkit.server.adapters.silly_tavern:SillyTavernAdapter._opened",
        "tavernkit.server.adapters.silly_tavern:_result",
    ),
    "model": ("tavernkit.server.upstreams.example_model:ExampleModel.send",),
    "clean_up": ("tavernkit.silly_tavern._chat.output_cleanup:clean_up",),
}
"""Functions as ``module:name``, and whole packages."""
_FUNCTIONS = {place: part for part, places in PARTS.items() for place in places if ":" in place}
_PACKAGES = {place: part for part, places in PARTS.items() for place in places if ":" not in place}
_known: dict[CodeType, str | None] = {}


def part_of(frame: FrameType | None) -> str | None:
    """Return the part to which a stack belongs; None if no function of it is named."""
    while frame is not None:
        code = frame.f_code
        if code not in _known:
            _known[code] = _named(str(frame.f_globals.get("__name__", "")), code.co_qualname)
        if (part := _known[code]) is not None:
            return part
        frame = frame.f_back
    return None


def _named(module: str, function: str) -> str | None:
    if found := _FUNCTIONS.get(f"{module}:{function}"):
        return found
    return next((_PACKAGES[package] for package in _packages_of(module) if package in _PACKAGES), None)


def _packages_of(module: str) -> Iterator[str]:
    while module:
        yield module
        module = module.rpartition(".")[0]


class Sampler:
    """Counts the samples of a worker by second, and writes them to a file of its own each second."""

    def __init__(self, folder: Path, *, detail: bool) -> None:
        self._file = folder / f"{os.getpid()}.json"
        self._detail = detail
        self._counts: dict[int, Counter[str]] = defaultdict(Counter)
        self._second = 0

    def start(self) -> None:
        """Sample the main thread from now on; where it only waits, threads that build."""
        signal.signal(signal.SIGPROF, self._sample)
        signal.setitimer(signal.ITIMER_PROF, INTERVAL, INTERVAL)

    def _sample(self, number: int, frame: FrameType | None) -> None:
        del number
        part = part_of(frame)
        if part is None:
            others = (each for each in sys._current_frames().items() if each[0] != threading.get_ident())
            part = next((found for _, each in others if (found := part_of(each)) == "build"), None)
        if part is None:
            part = f"{REST}: {_innermost(frame)}" if self._detail else REST
        second = int(time.time())
        self._counts[second][part] += 1
        if second != self._second:
            self._second = second
            self._file.write_text(json.dumps(self._counts), encoding="utf-8")


def _innermost(frame: FrameType | None) -> str:
    return f"{frame.f_globals.get('__name__')}:{frame.f_code.co_qualname}" if frame is not None else "nothing"


def serve() -> None:
    """Run the command line, with workers that sample themselves.

    Workers are forked off a process that has imported little before, so this changes what they run first.
    """
    from multiprocessing.process import BaseProcess

    from tavernkit.cli import main as command_line

    original = BaseProcess.run

    def run(self: BaseProcess) -> None:
        if type(self).__module__ == "tavernkit.server.run":
            Sampler(Path(os.environ[SAMPLES_VARIABLE]), detail=DETAIL_VARIABLE in os.environ).start()
        original(self)

    BaseProcess.run = run
    command_line()


def measure(sessions: int, seconds: float, *, detail: bool = False) -> dict[str, object]:
    """Run the service with sessions and return how many samples fell into each part, after a warm-up."""
    from benchmarks import load_server

    with tempfile.TemporaryDirectory() as folder:
        os.environ[SAMPLES_VARIABLE] = folder
        if detail:
            os.environ[DETAIL_VARIABLE] = "1"
        with load_server.served(start=("-m", "benchmarks.turn_profile", "--serve")) as server:
            began = time.time()
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                load = runner.run(load_server.measure(server, sessions, seconds))
            first, last = began + load_server.LATENCY * (load_server.WARM_UP_TURNS + 2), time.time() - 1
        total: Counter[str] = Counter()
        for file in Path(folder).glob("*.json"):
            for second, counts in json.loads(file.read_text(encoding="utf-8")).items():
                if first <= int(second) <= last:
                    total.update(counts)
    return {"samples": dict(total.most_common()), "load": asdict(load)}


def main() -> None:
    """Print the shares of all parts."""
    if "--serve" in sys.argv:
        sys.argv.remove("--serve")
        serve()
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=SESSIONS)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--detail", action="store_true")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    found = measure(given.sessions, given.seconds, detail=given.detail)
    if given.json:
        print(json.dumps(found))
        return
    samples: Mapping[str, int] = found["samples"]  # pyright: ignore[reportAssignmentType]  # see measure
    total = sum(samples.values())
    for part, number in samples.items():
        print(f"{100 * number / total:5.1f} %  {part}")
    print(f"{total} samples; {found['load']}")


if __name__ == "__main__":
    main()
