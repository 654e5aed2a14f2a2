"""Running measurements in processes of their own, with the source of this version or of an older one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
BENCHMARKS = ROOT / "benchmarks"
TIMEOUT_SECONDS = 900


class MeasurementError(Exception):
    """A measurement that failed, with what its process printed."""


@dataclass(frozen=True)
class Version:
    """A checkout, and the interpreter that runs it."""

    name: str
    root: Path = ROOT
    python: str = sys.executable
    more: Mapping[str, str] = field(default_factory=dict[str, str])
    """Variables of the environment."""

    @property
    def environment(self) -> dict[str, str]:
        """The environment of its processes: its own source first, and bytecode is kept."""
        path = os.pathsep.join((str(self.root), str(self.root / "src")))
        return {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "", **self.more}

    def command(self, script: str, *arguments: str) -> list[str]:
        """Return the command of a script of this checkout, which imports the source of the version."""
        return [self.python, "-P", str(BENCHMARKS / script), *arguments]

    def run(self, command: Sequence[str]) -> str:
        """Run a command and return what it printed.

        Raises:
            MeasurementError: If it fails.
        """
        try:
            done = subprocess.run(
                command,
                cwd=self.root,
                env=self.environment,
                capture_output=True,
                text=True,
                timeout=TIMEOUT_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise MeasurementError(f"{' '.join(command)} took more than {TIMEOUT_SECONDS} seconds") from error
        if done.returncode:
            raise MeasurementError(f"{' '.join(command)}\n{done.stdout[-2000:]}{done.stderr[-3000:]}")
        return done.stdout

    def json_of(self, command: Sequence[str]) -> Any:
        """Run a command and read the last line that it printed."""
        return json.loads(self.run(command).strip().splitlines()[-1])


@dataclass(frozen=True)
class Setup:
    """What a run measures with."""

    now: Version
    baseline: Version | None = None
    """An older version, with which the sections that compare alternate."""
    ray: str | None = None
    """The interpreter of an environment with Ray."""
    quick: bool = False
    """Only try whether everything works."""

    @property
    def versions(self) -> list[Version]:
        return [self.now] if self.baseline is None else [self.now, self.baseline]

    def rounds(self, usual: int) -> int:
        """Return how often something is repeated."""
        return 1 if self.quick else usual

    @property
    def quick_flag(self) -> list[str]:
        return ["--quick"] if self.quick else []


def checkout(name: str, folder: Path) -> Version:
    """Return a version from a checkout.

    Raises:
        MeasurementError: If the folder has no source of TavernKit, or Python would take it from elsewhere.
    """
    version = Version(name, folder.resolve())
    with tempfile.TemporaryDirectory() as elsewhere:
        found = Version(name, Path(elsewhere), more={"PYTHONPATH": version.environment["PYTHONPATH"]})
        place = found.run([version.python, "-c", "import tavernkit; print(tavernkit.__file__)"]).strip()
    if not Path(place).is_relative_to(version.root):
        raise MeasurementError(f"{folder} has no src/tavernkit: Python imports {place}")
    return version
