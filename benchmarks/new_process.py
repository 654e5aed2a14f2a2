"""What the first build costs in a new process: ``python -m benchmarks.new_process [processes]``.

Every process imports the builder, reads the workload and builds once; each line is the least of all processes, in
milliseconds of processor time and by the clock, with compiled bytecode and without the collections of garbage that are
due by chance in one part or another. The tokenizer is loaded by the first build that counts; here it is loaded apart to
show its share, and the build is measured both ways.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

PROCESSES = 10
WORD_THAT_NEEDS_MERGES = "Beldunhal"


Times: TypeAlias = dict[str, tuple[float, float]]
"""Milliseconds of processor time and by the clock."""


def measure(*, load_tokenizer_first: bool) -> Times:
    """Build once and return the times of every part."""
    times: Times = {}

    def now() -> tuple[float, float]:
        return time.process_time(), time.perf_counter()

    def took(what: str, start: tuple[float, float]) -> None:
        processor, clock = (1000 * (after - before) for after, before in zip(now(), start, strict=True))
        times[what] = processor, clock
        gc.collect()

    start = now()
    from tavernkit.silly_tavern import Builder

    took("import the builder", start)
    from benchmarks.bench_st_build import inputs

    given = inputs()
    gc.collect()
    if load_tokenizer_first:
        from tavernkit.budget import get_tokenizer  # 0.1.0 has it, too

        start = now()
        tokenizer = get_tokenizer("cl100k_base")
        took("load the vocabulary", start)
        start = now()
        tokenizer.count(WORD_THAT_NEEDS_MERGES)
        took("make the table of merges", start)
    start = now()
    Builder(**given).build(message="Who keeps the tower?")
    took("first build, tokenizer loaded" if load_tokenizer_first else "first build, all in", start)
    if not load_tokenizer_first:
        both = list(times.values())
        times["import and first build"] = sum(each[0] for each in both), sum(each[1] for each in both)
    return times


def least(found: Iterable[Mapping[str, Sequence[float]]]) -> Times:
    """Return the least times of some processes."""
    best: Times = {}
    for times in found:
        for what, (processor, clock) in times.items():
            before = best.get(what, (processor, clock))
            best[what] = min(processor, before[0]), min(clock, before[1])
    return best


def main() -> None:
    """Start the processes and print the minima."""
    if "--measure" in sys.argv:
        print(json.dumps(measure(load_tokenizer_first="loaded" in sys.argv)))
        return
    found: list[Times] = []
    with tempfile.TemporaryDirectory() as bytecode:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": bytecode, "PYTHONDONTWRITEBYTECODE": ""}
        for turn in range(1 + (int(sys.argv[1]) if len(sys.argv) > 1 else PROCESSES)):
            for kind in ("cold", "loaded"):
                command = [sys.executable, "-m", "benchmarks.new_process", "--measure", kind]
                result = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
                if turn:  # the first one only compiles
                    found.append(json.loads(result.stdout))
    for what, (processor, clock) in least(found).items():
        print(f"{what:32} {processor:7.1f} ms {clock:7.1f} ms")


if __name__ == "__main__":
    main()
