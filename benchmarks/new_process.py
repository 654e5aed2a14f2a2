"""What the first build costs in a new process: ``python -m benchmarks.new_process [processes]``.

Every process imports the builder, reads the workload and builds once; each line is the least processor time of all
processes, in milliseconds, with compiled bytecode and without the collections of garbage that are due by chance in one
part or another. The tokenizer is loaded by the first build that counts; here it is loaded apart to show its
share, and the build is measured both ways.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import tempfile
import time

PROCESSES = 10
WORD_THAT_NEEDS_MERGES = "Beldunhal"


def measure(*, load_tokenizer_first: bool) -> dict[str, float]:
    """Build once and return the milliseconds of every part."""
    times: dict[str, float] = {}

    def took(what: str, start: float) -> None:
        times[what] = (time.process_time() - start) * 1000
        gc.collect()

    start = time.process_time()
    from tavernkit.silly_tavern import Builder

    took("import the builder", start)
    from benchmarks.bench_st_build import inputs

    given = inputs()
    gc.collect()
    if load_tokenizer_first:
        from tavernkit.budget._tokenizers import get_tokenizer

        start = time.process_time()
        tokenizer = get_tokenizer("cl100k_base")
        took("load the vocabulary", start)
        start = time.process_time()
        tokenizer.count(WORD_THAT_NEEDS_MERGES)
        took("make the table of merges", start)
    start = time.process_time()
    Builder(**given).build(message="Who keeps the tower?")
    took("first build, tokenizer loaded" if load_tokenizer_first else "first build, all in", start)
    return times


def main() -> None:
    """Start the processes and print the minima."""
    if "--measure" in sys.argv:
        print(json.dumps(measure(load_tokenizer_first="loaded" in sys.argv)))
        return
    best: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as bytecode:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": bytecode, "PYTHONDONTWRITEBYTECODE": ""}
        for turn in range(1 + (int(sys.argv[1]) if len(sys.argv) > 1 else PROCESSES)):
            for kind in ("cold", "loaded"):
                command = [sys.executable, "-m", "benchmarks.new_process", "--measure", kind]
                result = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
                for what, took in json.loads(result.stdout).items() if turn else ():  # the first one only compiles
                    best[what] = min(took, best.get(what, took))
    for what, took in best.items():
        print(f"{what:32} {took:7.1f} ms")


if __name__ == "__main__":
    main()
