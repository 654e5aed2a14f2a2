"""Memory: what a builder adds to a bare process, and what a worker of batches needs (on Linux).

``python -m benchmarks.memory builder`` and ``python -m benchmarks.memory worker [RECORDS …]`` print a JSON object, in
megabytes of resident memory. Functions import what they need, so that a bare process is bare.
"""

from __future__ import annotations

import sys

RECORDS = (6_000, 20_000)
CHUNK = 25
WORD_THAT_NEEDS_MERGES = "Beldunhal"


def resident_mb(process: int | str = "self") -> float:
    """Return the resident memory of a process."""
    with open(f"/proc/{process}/status", encoding="utf-8") as file:  # noqa: PTH123  # see above
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS:")) / 1024


def prepare(folder: str) -> None:
    """Write the workload and the names of all modules that a build with it imports."""
    import pickle
    from pathlib import Path

    from tavernkit.silly_tavern import Builder

    before = set(sys.modules)
    from benchmarks.bench_st_build import inputs

    ours = set(sys.modules) - before
    given = inputs()
    Path(folder, "inputs").write_bytes(pickle.dumps(given))
    Builder(**given).build(message="Who keeps the tower?")
    wanted = [name for name in sys.modules if name not in ours or name.startswith("tavernkit")]
    Path(folder, "modules").write_text("\n".join(name for name in wanted if name != "__main__"), encoding="utf-8")


def builder(folder: str) -> dict[str, float]:
    """Return what each part of a first build adds to a bare process.

    The modules are imported before anything else, so that each part is counted once.
    """
    bare = resident_mb()
    with open(f"{folder}/modules", encoding="utf-8") as file:  # noqa: PTH123  # see above
        names = file.read().splitlines()
    for name in names:
        try:
            __import__(name)
        except ImportError:  # modules that others make up
            continue
    modules = resident_mb()
    from tavernkit.budget import get_tokenizer

    get_tokenizer("cl100k_base").count(WORD_THAT_NEEDS_MERGES)
    vocabulary = resident_mb()
    import gc
    import pickle

    from tavernkit.silly_tavern import Builder

    with open(f"{folder}/inputs", "rb") as file:  # noqa: PTH123  # see above
        given = pickle.load(file)
    made = Builder(**given)
    plan = made.build(message="Who keeps the tower?")
    gc.collect()
    after = resident_mb()
    del made, plan
    return {
        "bare": bare,
        "modules": modules - bare,
        "vocabulary": vocabulary - modules,
        "rest": after - vocabulary,
        "added": after - bare,
    }


def worker(stops: tuple[int, ...]) -> dict[str, float]:
    """Return the memory of a worker process after numbers of records of the shipped grid, with more seeds."""
    import tempfile
    from pathlib import Path

    import tavernkit as tk
    from benchmarks.batch import larger_grid
    from tavernkit.batching._executors import Job, _Process  # pyright: ignore[reportPrivateUsage]  # what batches start

    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = larger_grid(Path(folder), max(stops))
        grid = tk.Grid.load(path)
        process = _Process(Job(folder=grid.folder, form="jsonl"))
        tasks, made = iter(grid.tasks()), 0
        try:
            for stop in stops:
                while made < stop:
                    built = process.run([next(tasks) for _ in range(CHUNK)])
                    assert not any(each.failed for each in built)
                    made += len(built)
                found[str(stop)] = resident_mb(process._process.pid)
        finally:
            process.end()
    return found


def main() -> None:
    """Print what was asked for."""
    import json

    what = sys.argv[1] if len(sys.argv) > 1 else ""
    if what == "worker":
        print(json.dumps(worker(tuple(int(each) for each in sys.argv[2:]) or RECORDS)))
    elif what == "builder":
        import subprocess
        import tempfile

        with tempfile.TemporaryDirectory() as folder:
            for step in ("--prepare", "--measure"):
                done = subprocess.run([sys.executable, __file__, step, folder], check=True, stdout=subprocess.PIPE)
            print(done.stdout.decode().strip())
    elif what == "--prepare":
        prepare(sys.argv[2])
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        measured = builder(sys.argv[2])
        print(str(measured).replace("'", '"'))
    else:
        main()
