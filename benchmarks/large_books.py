"""The first use of a large world book: from its file to the result of a scan, in a process that does nothing else.

``python -m benchmarks.large_books ENTRIES [--index] [--rounds 4]`` prints a JSON object: the least processor time and
the least time by the clock, in milliseconds.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

from benchmarks import workloads
from benchmarks.bench_world_info import SETTINGS, ScanInput, SelectedBooks, WorldBook, WorldInfoEngine, estimate


def first_use(path: Path, messages: list[str]) -> object:
    """Load a book and scan messages for it."""
    books = SelectedBooks(global_=(WorldBook.load(path),))
    given = ScanInput(messages=messages, books=books, settings=SETTINGS, max_context=16000, count_tokens=estimate)
    return books, WorldInfoEngine().scan(given)


def measure(entries: int, *, index: bool, rounds: int) -> dict[str, float]:
    """Return the least times of some first uses of the same file."""
    made = workloads.lore(entries)
    messages = [f"{line['name']}: {line['mes']}" for line in reversed(made["chat"])]
    times: list[tuple[float, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "book.json"
        path.write_text(json.dumps(made["book"]), encoding="utf-8")
        del made
        if index:
            WorldBook.load(path).index()
        for _ in range(rounds):
            clock, processor = time.perf_counter(), time.process_time()
            result = first_use(path, messages)
            times.append((time.process_time() - processor, time.perf_counter() - clock))
            del result  # freeing it is no part of the work
    processor, clock = (1000 * min(each) for each in zip(*times, strict=True))
    return {"processor_ms": processor, "clock_ms": clock}


def main() -> None:
    """Measure one size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("entries", type=int)
    parser.add_argument("--index", action="store_true", help="make an index of the book first")
    parser.add_argument("--rounds", type=int, default=4)
    given = parser.parse_args()
    print(json.dumps(measure(given.entries, index=given.index, rounds=given.rounds)))


if __name__ == "__main__":
    main()
