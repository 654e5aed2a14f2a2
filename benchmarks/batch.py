"""``make bench-batch``: what a record of the shipped grid costs, and what more cores and nodes bring.

On a shared machine elapsed time says more about the neighbours than about the code. So besides it, processor time is
measured, of this process and its workers: what N cores can do is N seconds of it a second. ``--json`` prints numbers,
and ``--json --ray`` those of a Ray cluster of two nodes.
"""

from __future__ import annotations

import argparse
import json
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
STARTING_RECORDS = 200
HAND_OVER_RECORDS = (1_000, 5_000)


@dataclass(frozen=True)
class Cost:
    """What a run took: by the clock, and of processors."""

    records: int
    seconds: float
    processor_seconds: float
    """Of all processes."""
    own_seconds: float = 0.0
    """Of this process alone."""

    @property
    def processor_ms(self) -> float:
        return 1000 * self.processor_seconds / self.records

    def __sub__(self, other: Cost) -> Cost:
        return Cost(
            self.records - other.records,
            self.seconds - other.seconds,
            self.processor_seconds - other.processor_seconds,
            self.own_seconds - other.own_seconds,
        )


def main() -> int:
    """Measure, and print a table with the goals, or numbers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--ray", action="store_true", help="only two nodes of a Ray cluster, and one process")
    parser.add_argument("--quick", action="store_true", help="only try whether it works")
    given = parser.parse_args()
    if given.json:
        rounds = 1 if given.quick else ROUNDS + 1
        print(json.dumps(ray_figures(rounds) if given.ray else figures(rounds, quick=given.quick)))
        return 0
    return report()


def figures(rounds: int, *, quick: bool = False) -> dict[str, float]:
    """Return the numbers of the page: the best of some rounds."""
    best = one_core()
    pairs = [(steady(1), steady(2)) for _ in range(rounds)]
    one, two = (min(cost.seconds for cost in costs) for costs in zip(*pairs, strict=True))
    some, many = (100, 1_000) if quick else HAND_OVER_RECORDS
    return {
        "processor_ms_of_a_record": 1000 * best,
        "two_workers": one / two,
        "two_workers_by_processor_time": 2
        * min(pair[0].processor_ms for pair in pairs)
        / min(pair[1].processor_ms for pair in pairs),
        "hand_over_us": min(hand_over(some, many) for _ in range(rounds)),
    }


def ray_figures(rounds: int) -> dict[str, float]:
    """Return how much faster two nodes of a Ray cluster are than one process."""
    run(1, limit=CHUNK)  # imports
    one = min(steady(1).seconds for _ in range(rounds))
    nodes = on_ray()
    return {"two_nodes": one / nodes.seconds * nodes.records / (one_grid() - STARTING_RECORDS)}


def hand_over(some: int, many: int) -> float:
    """Return the processor time of a record in the process that starts the workers, in microseconds."""
    with tempfile.TemporaryDirectory() as folder:
        grid = larger_grid(Path(folder), many)
        cost = run(2, grid=grid, limit=many) - run(2, grid=grid, limit=some)
    return 1e6 * cost.own_seconds / cost.records


def larger_grid(folder: Path, records: int) -> Path:
    """Copy the shipped grid, with so many seeds that it has this many records."""
    shutil.copytree(example_path("grid.toml").parent, folder, dirs_exist_ok=True)
    path = folder / "grid.toml"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("count = 10 ", f"count = {-(-records // 100)} "), encoding="utf-8")
    assert len(tk.Grid.load(path)) >= records
    return path


def one_grid() -> int:
    """Return the number of records of the shipped grid."""
    return len(tk.Grid.load(example_path("grid.toml")))


def report() -> int:
    """Measure, and print a table with the goals."""
    print(f"the shipped grid, {one_grid()} records; load {os.getloadavg()[0]:.1f}")
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
    some, every = run(jobs, limit=STARTING_RECORDS), run(jobs)
    return every - some


def run(jobs: int, limit: int | None = None, grid: Path | None = None) -> Cost:
    """Run a grid into a folder, by default the shipped one."""
    with tempfile.TemporaryDirectory() as folder:
        before, own, started = used(), time.process_time(), time.perf_counter()
        result = tk.batch(grid or example_path("grid.toml"), folder, jobs=jobs, limit=limit)
        return Cost(result.made, time.perf_counter() - started, used() - before, time.process_time() - own)


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
