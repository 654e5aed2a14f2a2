"""What is measured, section by section of the page; each function returns the numbers of its section.

Everything runs in processes of its own. Where an older version is compared, the two alternate.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from benchmarks.performance_page.builds import measure_builds
from benchmarks.performance_page.versions import ROOT, MeasurementError, Setup, Version

Numbers: TypeAlias = dict[str, Any]

GROWTH_OPERATIONS = 25
BOOKS = (10_000, 40_000, 100_000)
PROFILE_SESSIONS = 500


@dataclass(frozen=True)
class Section:
    """A part of the page."""

    name: str
    what: str
    """What runs, for the user who waits."""
    measure: Callable[[Setup], Numbers]


def measure_memory(setup: Setup) -> Numbers:
    """The memory of a builder, and of a worker of batches."""
    now = setup.now
    stops = ("100", "200") if setup.quick else ("6000", "20000")
    return {
        "builder": now.json_of(now.command("memory.py", "builder")),
        "worker": now.json_of(now.command("memory.py", "worker", *stops)),
    }


def measure_start_up(setup: Setup) -> Numbers:
    """Imports and commands, and the parts of a first build."""
    found: Numbers = {}
    for version in setup.versions:
        command = [version.python, "-m", "benchmarks.start_up", "--json", "--rounds", str(setup.rounds(5))]
        found[version.name] = _new_benchmarks(version).json_of(command)
    now = setup.now
    command = now.command("new_process.py", "--measure", "loaded")
    processes = [now.json_of(command) for _ in range(setup.rounds(10))]
    found["parts"] = {what: min(each[what] for each in processes) for what in processes[0]}
    return found


def measure_growth(setup: Setup) -> Numbers:
    """Every operation at three sizes, in a process of its own; the least of all rounds counts."""
    found: list[Numbers] = []
    for number in range(GROWTH_OPERATIONS):
        if number in _LARGE_BOOKS or (setup.quick and number % 6):
            continue
        command = [setup.now.python, "-m", "benchmarks.growth", "--json", str(number)]
        rounds = [setup.now.json_of(command)[0] for _ in range(setup.rounds(3))]
        times = zip(*(each["processor_ms"] for each in rounds), strict=True)
        found.append({**rounds[0], "processor_ms": [min(each) for each in times]})
    return {"operations": found}


_LARGE_BOOKS = (3, 4)
"""Operations that have a section of their own."""


def measure_large_books(setup: Setup) -> Numbers:
    """The first use of books, with the older version and with an index."""
    found: Numbers = {}
    for entries in BOOKS[:1] if setup.quick else BOOKS:
        kinds = {version.name: version.command("large_books.py", str(entries)) for version in setup.versions}
        kinds["index"] = setup.now.command("large_books.py", str(entries), "--index")
        by_name = {version.name: version for version in setup.versions}
        for _ in range(setup.rounds(3)):
            for kind, command in kinds.items():
                times = by_name.get(kind, setup.now).json_of(command)
                best = found.setdefault(kind, {}).setdefault(str(entries), times)
                found[kind][str(entries)] = {name: min(value, best[name]) for name, value in times.items()}
    return found


def measure_source_maps(setup: Setup) -> Numbers:
    """Turns with and without a map."""
    words = ["scripts"] if setup.quick else []
    return setup.now.json_of([setup.now.python, "-m", "benchmarks.bench_source_map", "--json", *words])


def measure_regular_expressions(setup: Setup) -> Numbers:
    """Regular expressions and the bare engine."""
    return setup.now.json_of([setup.now.python, "-m", "benchmarks.regular_expressions", "--json", *setup.quick_flag])


def measure_service(setup: Setup) -> Numbers:
    """The service under load, on both databases; of three runs, the one with the median of turns per second."""
    seconds = ["--seconds", "3"] if setup.quick else []
    load = [setup.now.python, "-m", "benchmarks.load_server", "--json", *seconds]
    postgres = [setup.now.python, "-m", "tests.server.postgres_server", *load]
    kinds: dict[str, tuple[Version, list[str]]] = {
        "sqlite": (setup.now, load),
        "postgres": (_with(setup.now, TAVERNKIT_POSTGRES_FSYNC="on"), postgres),
        "http": (setup.now, [*load, "--http", "--sessions", "50"]),
    }
    if setup.baseline is not None:
        kinds["before"] = (_new_benchmarks(setup.baseline), [*load, "--sessions", "500"])
    rounds: dict[str, list[Numbers]] = {kind: [] for kind in kinds}
    for _ in range(setup.rounds(3)):
        for kind, (version, command) in kinds.items():
            rounds[kind].append(_load_of(version, command))
    loads = {kind: _medians([each["loads"] for each in found]) for kind, found in rounds.items()}
    return {"loads": loads, "flush_ms": statistics.median(each["flush_ms"] for each in rounds["sqlite"])}


def _load_of(version: Version, command: list[str]) -> Numbers:
    """Run a load. It fails if a turn is slower than allowed, which is no failure of the measurement."""
    with tempfile.TemporaryDirectory() as folder:
        script = "import subprocess, sys; subprocess.run(sys.argv[2:], stdout=open(sys.argv[1], 'w'))"
        version.run([version.python, "-c", script, f"{folder}/out", *command])
        lines = Path(folder, "out").read_text(encoding="utf-8").strip().splitlines()
    if not lines or not lines[-1].startswith("{"):
        raise MeasurementError(f"{' '.join(command)} printed no result: {lines}")
    return json.loads(lines[-1])


def _medians(runs: list[list[Numbers]]) -> list[Numbers]:
    """Return the median run of each number of sessions, by turns per second."""
    return [
        sorted(loads, key=lambda load: load["turns_per_second"])[len(loads) // 2] for loads in zip(*runs, strict=True)
    ]


def measure_profile(setup: Setup) -> Numbers:
    """Samples of the stacks of the service's workers."""
    seconds = ["--seconds", "6"] if setup.quick else []
    return setup.now.json_of([setup.now.python, "-m", "benchmarks.turn_profile", "--json", *seconds])


def measure_batches(setup: Setup) -> Numbers:
    """Batches: a core, two workers, and two nodes of a Ray cluster if its interpreter is given."""
    command = ["-m", "benchmarks.batch", "--json", *setup.quick_flag]
    found = setup.now.json_of([setup.now.python, *command])
    ray = setup.now.json_of([setup.ray, *command, "--ray"]) if setup.ray is not None else {"two_nodes": None}
    return {**found, **ray}


def _with(version: Version, **more: str) -> Version:
    return Version(version.name, version.root, version.python, {**version.more, **more})


def _new_benchmarks(version: Version) -> Version:
    """Return a version whose own source runs with the benchmarks of this checkout."""
    path = f"{ROOT}:{version.root / 'src'}"
    return Version(version.name, ROOT, version.python, {"PYTHONPATH": path})


SECTIONS: Mapping[str, Section] = {
    section.name: section
    for section in (
        Section("builds", "builds of both versions in turn: pytest-benchmark, then new processes", measure_builds),
        Section("memory", "the memory of a builder and of a worker", measure_memory),
        Section("start_up", "imports, commands and the start of the service", measure_start_up),
        Section("growth", "23 operations at three sizes", measure_growth),
        Section("large_books", "the first use of books with up to 100,000 entries", measure_large_books),
        Section("source_maps", "turns with and without source maps", measure_source_maps),
        Section("regular_expressions", "regular expressions and the bare engine", measure_regular_expressions),
        Section("service", "the service with 1, 50 and 500 sessions, on SQLite and PostgreSQL", measure_service),
        Section("profile", f"samples of the service's stacks with {PROFILE_SESSIONS} sessions", measure_profile),
        Section("batches", "batches in one process, two, and on Ray", measure_batches),
    )
}


def check_python() -> None:
    """Stop where the page could not be measured: it needs Linux, for memory, profiles and processor times."""
    if not sys.platform.startswith("linux"):
        sys.exit("this measures memory and processor times with Linux's /proc")
