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
import random
import subprocess
import sys
import tempfile
import time
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


def with_atheris(name: str, runs: int, seed: int) -> None:
    """Fuzz with libFuzzer; it ends the process."""
    atheris: Any = importlib.import_module("atheris")
    with atheris.instrument_imports(include=["tavernkit"]):
        from fuzz.targets import TARGETS
    target = TARGETS[name]
    with tempfile.TemporaryDirectory() as folder:
        for number, data in enumerate(seeds(target)):
            (Path(folder) / str(number)).write_bytes(data)
        options = [f"-runs={runs}", f"-seed={seed}", f"-max_len={MAX_LENGTH}", "-verbosity=0", "-rss_limit_mb=4096"]
        atheris.Setup([sys.argv[0], *options, folder], lambda data: attempt(target, bytes(data)))
        atheris.Fuzz()


def main() -> int:
    """Fuzz the targets one after the other and print how many inputs were tried."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("targets", nargs="*", help="names of fuzz/targets.py; all of them by default")
    parser.add_argument("--runs", type=int, default=20_000, help="inputs a target")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.alone:
        with_atheris(given.targets[0], given.runs, given.seed)
        return 0
    from fuzz.targets import TARGETS

    names = given.targets or list(TARGETS)
    failed = 0
    for name in names:
        started = time.monotonic()
        if importlib.util.find_spec("atheris") is not None:
            command = [sys.executable, "-m", "fuzz.guided", name, "--alone", "--runs", str(given.runs)]
            code = subprocess.run([*command, "--seed", str(given.seed)], check=False).returncode  # ourselves
            failed += code != 0
            note = "with atheris"
        else:
            note = f"{loop(TARGETS[name], given.runs, given.seed)} kept"
        sys.stdout.write(f"{name}: {given.runs:,} executions in {time.monotonic() - started:.0f} s, {note}\n")
    sys.stdout.write(f"{given.runs * len(names):,} executions in all, {failed} targets failed\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
