"""The file of results: the numbers of every section, and facts about the run that each comes from."""

from __future__ import annotations

import datetime
import json
import os
import platform
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any, TypeAlias

from benchmarks.performance_page.versions import ROOT, Version

RESULTS = ROOT / "benchmarks" / "results" / "performance.json"

Results: TypeAlias = dict[str, Any]
"""``{"runs": {id: facts}, "sections": {name: {"run": id, "seconds": …, "numbers": …}}}``"""


def load(path: Path = RESULTS) -> Results:
    """Return the results of earlier runs; none if there is no file."""
    if not path.exists():
        return {"runs": {}, "sections": {}}
    return json.loads(path.read_text(encoding="utf-8"))


def save(results: Results, path: Path = RESULTS) -> None:
    """Write the results, without runs of which nothing is left."""
    used = {section["run"] for section in results["sections"].values()}
    kept = {**results, "runs": {name: run for name, run in results["runs"].items() if name in used}}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def main_run(results: Results) -> str:
    """Return the id of the run that most sections come from, or the newer one of two."""
    sections = Counter(section["run"] for section in results["sections"].values())
    return max(sections, key=lambda run: (sections[run], run))


def facts(now: Version, baseline: Version | None, *, quick: bool) -> dict[str, Any]:
    """Return what a reader must know about a run before it begins."""
    return {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": _git("rev-parse", "--short=8", "HEAD"),
        "changed_files": [line[3:] for line in _git("status", "--porcelain", "--", "src", "benchmarks").splitlines()],
        "baseline": None if baseline is None else _version(baseline),
        "version": _version(now),
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.release()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "load_before": os.getloadavg()[0],
        "load_after": None,
        "seconds": 0.0,
        "quick": quick,
    }


def _version(version: Version) -> str:
    return version.run([version.python, "-c", "import tavernkit; print(tavernkit.__version__)"]).strip()


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip("\n")


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())
