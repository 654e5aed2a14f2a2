"""``python -m benchmarks.start_up``: how long imports and commands take, by the clock and in processor time.

Every command runs in a process of its own, with files that the system has in memory. Commands alternate; the medians
count. ``--json`` prints one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import tavernkit
from benchmarks.load_server import served
from tavernkit.examples import example_path

ROUNDS = 5
IMPORT = "from tavernkit.silly_tavern import Builder"
BUILD = ("build", str(example_path("aria.json")), "--message", "Who lit the lamp?")

Times = tuple[float, float]
"""Milliseconds by the clock and of processors."""


def run(arguments: Sequence[str], environment: Mapping[str, str] | None = None) -> Times:
    """Run Python with arguments and return the times of its process."""
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, *arguments],
        stdout=subprocess.DEVNULL,
        env=None if environment is None else {**os.environ, **environment},
    )
    _, status, usage = os.wait4(process.pid, 0)
    clock = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, process.args)
    return 1000 * clock, 1000 * (usage.ru_utime + usage.ru_stime)


def start_service() -> Times:
    """Return the times until a service with two workers is ready."""
    with served() as server:
        return 1000 * server.seconds, server.processor_ms


def measure(rounds: int) -> dict[str, dict[str, float]]:
    """Return the medians of every command."""
    with tempfile.TemporaryDirectory() as folder:
        package = Path(tavernkit.__file__).parent
        shutil.copytree(package, Path(folder, "tavernkit"), ignore=shutil.ignore_patterns("__pycache__"))
        uncompiled = {"PYTHONPATH": folder, "PYTHONDONTWRITEBYTECODE": "1"}
        commands: dict[str, Callable[[], Times]] = {
            "python": lambda: run(["-c", "pass"]),
            "import": lambda: run(["-c", IMPORT]),
            "import_uncompiled": lambda: run(["-P", "-c", IMPORT], uncompiled),
            "help": lambda: run(["-m", "tavernkit", "--help"]),
            "build": lambda: run(["-m", "tavernkit", *BUILD]),
            "serve": start_service,
        }
        for command in commands.values():
            command()  # the first run compiles
        found: dict[str, list[Times]] = {name: [] for name in commands}
        for _ in range(rounds):
            for name, command in commands.items():
                found[name].append(command())
    return {
        name: {
            "clock_ms": statistics.median(clock for clock, _ in times),
            "processor_ms": statistics.median(processor for _, processor in times),
        }
        for name, times in found.items()
    }


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    given = parser.parse_args()
    found = measure(given.rounds)
    if given.json:
        print(json.dumps(found))
        return
    for name, times in found.items():
        print(f"{name:18} {times['clock_ms']:7.1f} ms by the clock {times['processor_ms']:7.1f} ms of processor time")


if __name__ == "__main__":
    main()
