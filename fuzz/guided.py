"""Fuzzing that follows coverage: ``python -m fuzz.guided --runs 100000 [TARGET …]``.

Inputs that reach new lines are kept and changed again. Seeds are the texts of the recorded vectors. With atheris
installed it does the work; otherwise a small loop with Python's own tracing does, which is slower and needs nothing.
A target must end, quickly, and raise nothing but errors of this library.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import os
import random
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fuzz.targets import Target

VECTORS = Path(__file__).parents[1] / "tests" / "conformance" / "vectors"
MAX_SEEDS, MAX_SEED_LENGTH, MAX_LENGTH = 400, 400, 2000
SLOWEST = 2.0
"""Seconds of processor time that no input may take."""
CHEAP, LEAST_SHARE = 0.0001, 0.05
"""Seconds that a cheap input takes; the part of a cheap target's time that a costly one gets at least."""
TOLD_EVERY = 10.0
"""Seconds between two notes of how far a run is."""
STUCK = 60
"""Seconds by the clock after which an input that has not ended counts as found."""


def seeds(target: Target) -> list[bytes]:
    """Texts of the vectors of a target's surfaces, the short ones of each."""
    found: dict[str, None] = {}
    for surface in target.surfaces:
        for line in (VECTORS / f"{surface}.jsonl").read_text(encoding="utf-8").splitlines():
            for text in _texts(json.loads(line)):
                if 2 < len(text) <= MAX_SEED_LENGTH:
                    found[text] = None
    chosen = random.Random(target.name).sample(list(found), min(MAX_SEEDS, len(found)))  # no secret
    return [*target.seeds, *(text.encode("utf-8", "replace") for text in chosen)]


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _texts(each)


def attempt(target: Target, data: bytes) -> None:
    """Try one input."""
    started = time.process_time()
    target.run(data)
    taken = time.process_time() - started
    assert taken < SLOWEST, f"{target.name} took {taken:.1f} s for {data!r}"


class Tracer:
    """Notes which lines of the library run."""

    def __init__(self) -> None:
        self.seen: set[tuple[int, int]] = set()
        self.new = 0

    def __call__(self, frame: FrameType, event: str, argument: object) -> Callable[..., Any] | None:
        """Look into functions of the library only."""
        return self._line if "tavernkit" in frame.f_code.co_filename else None

    def _line(self, frame: FrameType, event: str, argument: object) -> Callable[..., Any]:
        place = (id(frame.f_code), frame.f_lineno)
        if place not in self.seen:
            self.seen.add(place)
            self.new += 1
        return self._line


def loop(target: Target, runs: int, seed: int) -> int:
    """Fuzz with Python's own tracing; gives how many inputs were kept."""
    chance = random.Random(seed)  # no secret
    kept, tracer = seeds(target), Tracer()
    begin = len(kept)
    target.prepare()
    for number in range(runs):
        data = kept[number] if number < begin else _changed(chance.choice(kept), kept, chance)
        tracer.new = 0
        sys.settrace(tracer)
        try:
            attempt(target, data)
        except BaseException:
            sys.settrace(None)
            sys.stderr.write(f"{target.name} failed for {data!r}\n")
            raise
        finally:
            sys.settrace(None)
        if tracer.new and number >= begin:
            kept.append(data)
    return len(kept) - begin


def _changed(data: bytes, kept: list[bytes], chance: random.Random) -> bytes:
    made = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        at = chance.randint(0, len(made))
        match chance.randint(0, 5):
            case 0:
                made[at:at] = bytes([chance.randrange(256)])
            case 1:
                del made[at : at + chance.randint(1, 8)]
            case 2:
                other = chance.choice(kept)
                start = chance.randint(0, len(other))
                made[at:at] = other[start : start + chance.randint(1, 40)]
            case 3:
                made[at:at] = made[at : at + chance.randint(1, 20)] * chance.randint(1, 8)
            case 4 if made:
                made[at % len(made)] ^= 1 << chance.randrange(8)
            case _:
                made[at:at] = chance.choice((b"{{", b"}}", b"::", b"(", b")*", b"\\", b"[", b"]", b'"', b"<", b"%}"))
    return bytes(made[:MAX_LENGTH])


def with_atheris(name: str, runs: int, seed: int, corpus: Path | None) -> None:
    """Fuzz with libFuzzer; it ends the process."""
    atheris: Any = importlib.import_module("atheris")
    with atheris.instrument_imports(include=["tavernkit"]):
        from fuzz.targets import TARGETS
    target = TARGETS[name]
    target.prepare()
    with tempfile.TemporaryDirectory() as beginnings:
        for number, data in enumerate(seeds(target)):
            (Path(beginnings) / str(number)).write_bytes(data)
        folders = [beginnings]
        if corpus is not None:  # libFuzzer adds to the first folder
            (corpus / name).mkdir(parents=True, exist_ok=True)
            folders = [str(corpus / name), beginnings]
        options = [f"-runs={runs}", f"-seed={seed}", f"-max_len={MAX_LENGTH}", "-verbosity=0", "-print_final_stats=1"]
        options += [f"-timeout={STUCK}", "-rss_limit_mb=4096"]
        atheris.Setup([sys.argv[0], *options, *folders], lambda data: attempt(target, bytes(data)))
        atheris.Fuzz()


class Together:
    """All targets in one process, which begins only once: the first byte of an input chooses the target.

    Targets share the time, those that are cheap get more of it. What is found is noted, once for each line that
    raised, and fuzzing goes on.
    """

    def __init__(self, targets: list[Target], runs: int, notes: Path) -> None:
        self._targets, self._runs, self._notes = targets, runs, notes
        self._counts = [0] * len(targets)
        self._seconds = [0.0] * len(targets)
        self._shares = [1.0] * len(targets)
        self._found: dict[str, str] = {}
        self._told = 0.0

    def seeds(self) -> Iterator[bytes]:
        """Begin with what each target begins with."""
        for number, target in enumerate(self._targets):
            target.prepare()
            yield from (bytes([number]) + data for data in seeds(target))

    def run(self, data: bytes) -> None:
        """Try an input, unless its target has had its share of the time."""
        number = data[0] % len(self._targets) if data else 0
        if self._seconds[number] > max(self._shares[number] / sum(self._shares) * sum(self._seconds), 0.5):
            return
        started = time.process_time()
        try:
            attempt(self._targets[number], data[1:])
        except Exception as error:
            self._note(self._targets[number].name, data[1:], error)
        self._seconds[number] += time.process_time() - started
        self._counts[number] += 1
        cost = self._seconds[number] / self._counts[number]
        self._shares[number] = max(LEAST_SHARE, min(1.0, CHEAP / max(cost, 1e-9)))
        if self._counts[number] % 100 == 0:
            self._tell()

    def _note(self, name: str, data: bytes, error: Exception) -> None:
        places = traceback.extract_tb(error.__traceback__)
        place = f"{name} {type(error).__name__} {places[-1].filename}:{places[-1].lineno}"
        if place not in self._found:
            self._found[place] = f"{data!r}\n{''.join(traceback.format_exception(error))}"

    def _tell(self) -> None:
        done = sum(self._counts) >= self._runs
        if not done and time.monotonic() - self._told < TOLD_EVERY:
            return
        self._told = time.monotonic()
        told = {target.name: count for target, count in zip(self._targets, self._counts, strict=True)}
        self._notes.write_text(json.dumps({"executions": told, "found": self._found}, indent=1))
        if done:
            sys.stdout.write(f"{sum(self._counts):,} executions in all, {len(self._found)} found\n")
            sys.stdout.flush()
            os._exit(1 if self._found else 0)  # libFuzzer would go on


def together(runs: int, seed: int, corpus: Path | None, notes: Path) -> None:
    """Fuzz all targets with libFuzzer in this process; it ends the process."""
    atheris: Any = importlib.import_module("atheris")
    with atheris.instrument_imports(include=["tavernkit"]):
        from fuzz.targets import TARGETS
    work = Together(list(TARGETS.values()), runs, notes)
    with tempfile.TemporaryDirectory() as beginnings:
        for number, data in enumerate(work.seeds()):
            (Path(beginnings) / str(number)).write_bytes(data)
        if corpus is not None:
            corpus.mkdir(parents=True, exist_ok=True)
        folders = [beginnings] if corpus is None else [str(corpus), beginnings]
        options = [f"-seed={seed}", f"-max_len={MAX_LENGTH}", "-verbosity=0", f"-timeout={STUCK}", "-rss_limit_mb=4096"]
        atheris.Setup([sys.argv[0], *options, *folders], work.run)
        atheris.Fuzz()


def main() -> int:
    """Fuzz the targets one after the other and print how many inputs were tried."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("targets", nargs="*", help="names of fuzz/targets.py; all of them by default")
    parser.add_argument("--runs", type=int, default=20_000, help="inputs a target")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--corpus", type=Path, help="where inputs that reach new lines are kept for the next run (atheris)"
    )
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument(
        "--together", type=Path, metavar="FILE", help="all targets in one process, with notes in a file"
    )
    given = parser.parse_args()
    if given.together:
        together(given.runs, given.seed, given.corpus, given.together)
        return 0
    if given.alone:
        with_atheris(given.targets[0], given.runs, given.seed, given.corpus)
        return 0
    from fuzz.targets import TARGETS

    names = given.targets or list(TARGETS)
    failed = 0
    for name in names:
        started = time.monotonic()
        if importlib.util.find_spec("atheris") is not None:
            command = [sys.executable, "-m", "fuzz.guided", name, "--alone", "--runs", str(given.runs)]
            command += ["--seed", str(given.seed), *(["--corpus", str(given.corpus)] if given.corpus else [])]
            code = subprocess.run(command, check=False).returncode  # ourselves
            failed += code != 0
            note = "with atheris"
        else:
            note = f"{loop(TARGETS[name], given.runs, given.seed)} kept"
        sys.stdout.write(f"{name}: {given.runs:,} executions in {time.monotonic() - started:.0f} s, {note}\n")
    sys.stdout.write(f"{given.runs * len(names):,} executions in all, {failed} targets failed\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
