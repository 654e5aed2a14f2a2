"""``make bench-batch``: what a record of the shipped grid costs, and what more cores and nodes bring.

On a shared machine elapsed time says more about the neighbours than about the code. So besides it, processor time is
measured, of this process and its workers: what N cores can do is N seconds of it a second.
"""

from __future__ import annotations

import os
import resource
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import tavernkit as tk
from tavernkit.batching._executors import Job, Worker
from tavernkit.batching._grid import Selection
from tavernkit.examples import example_path

BUILDS_A_SECOND = 300
TWO_CORES = 1.8
TWO_NODES = 1.5
CHUNK = 25
ROUNDS = 2


@dataclass(frozen=True)
class Cost:
    """What a run took: by the clock, and of processors."""

    records: int
    seconds: float
    processor_seconds: float

    @property
    def processor_ms(self) -> float:
        return 1000 * self.processor_seconds / self.records


def main() -> int:
    """Measure, and print a table with the goals."""
    print(f"the shipped grid, {len(tk.Grid.load(example_path('grid.toml')))} records; load {os.getloadavg()[0]:.1f}")
    best = one_core()
    print(f"one core: {1000 * best:.2f} ms of processor time a record, {1 / best:.0f}/s (goal {BUILDS_A_SECOND}/s)")
    rounds = [(steady(1), steady(2)) for _ in range(ROUNDS)]  # in turns, so that both meet the same neighbours
    one, two = (min(costs, key=lambda cost: cost.processor_ms) for costs in zip(*rounds, strict=True))
    by_processor = 2 * one.processor_ms / two.processor_ms
    print(
        f"1 job:  {one.records / one.seconds:.0f}/s by the clock, {one.processor_ms:.2f} ms of processor time a record"
    )
    print(f"2 jobs: {two.records / two.seconds:.0f}/s by the clock, {two.processor_ms:.2f} ms, of all processes")
    print(
        f"two cores: {one.seconds / two.seconds:.2f} times one by the clock, "
        f"{by_processor:.2f} times by processor time (goal {TWO_CORES})"
    )
    kept = (1 / best >= BUILDS_A_SECOND) + (by_processor >= TWO_CORES) == 2
    if find_spec("ray") is None:
        print("Ray is not installed: pip install 'tavernkit[ray]'")
    else:
        nodes = on_ray()
        print(
            f"Ray, two nodes: {nodes.records / nodes.seconds:.0f}/s by the clock, "
            f"{one.seconds / nodes.seconds * nodes.records / one.records:.2f} times one process (goal {TWO_NODES})"
        )
    return 0 if kept else 1


def one_core() -> float:
    """Return the least processor time of a record over many chunks: build, record and JSONL."""
    grid = tk.Grid.load(example_path("grid.toml"))
    worker = Worker(Job(folder=grid.folder, form="jsonl"))
    tasks = list(grid.tasks(Selection(limit=CHUNK * 24)))
    worker.run(tasks[:CHUNK])
    times: list[float] = []
    for start in range(CHUNK, len(tasks), CHUNK):
        before = time.process_time()
        worker.run(tasks[start : start + CHUNK])
        times.append((time.process_time() - before) / CHUNK)
    return min(times)


def steady(jobs: int) -> Cost:
    """Return what records cost once workers run: what a run of all takes longer than one of some."""
    some, every = run(jobs, limit=200), run(jobs)
    return Cost(
        every.records - some.records,
        every.seconds - some.seconds,
        every.processor_seconds - some.processor_seconds,
    )


def run(jobs: int, limit: int | None = None) -> Cost:
    """Run the grid into a folder."""
    with tempfile.TemporaryDirectory() as folder:
        before, started = used(), time.perf_counter()
        result = tk.batch(example_path("grid.toml"), folder, jobs=jobs, limit=limit)
        return Cost(result.made, time.perf_counter() - started, used() - before)


def used() -> float:
    """Return the processor time of this process and of those it has waited for."""
    whose = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(usage.ru_utime + usage.ru_stime for usage in map(resource.getrusage, whose))


def on_ray() -> Cost:
    """Run the grid on two nodes of this machine, after a small run that starts the workers."""
    ray, utilities = import_module("ray"), import_module("ray.cluster_utils")
    node = {"num_cpus": 1, "object_store_memory": 100 * 1024 * 1024}
    cluster = utilities.Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
    folder = Path(tempfile.mkdtemp())
    try:
        cluster.add_node(**node)
        ray.init(address=cluster.address, log_to_driver=False, logging_level="error")
        tk.batch(example_path("grid.toml"), folder / "warm", ray=cluster.address, limit=100)
        started = time.perf_counter()
        result = tk.batch(example_path("grid.toml"), folder / "out", ray=cluster.address)
        seconds = time.perf_counter() - started
        ray.shutdown()
        return Cost(result.made, seconds, 0.0)
    finally:
        cluster.shutdown()
        shutil.rmtree(folder)


if __name__ == "__main__":
    sys.exit(main())
