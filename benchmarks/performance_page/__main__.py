"""``python -m benchmarks.performance_page``: measure everything, save the numbers, and write the page's tables."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.performance_page.page import PAGE, PageError, generated, written
from benchmarks.performance_page.results import RESULTS, Results, facts, load, save
from benchmarks.performance_page.sections import SECTIONS, check_python
from benchmarks.performance_page.versions import ROOT, MeasurementError, Setup, Version, checkout

EXAMPLES = """examples:
  python -m benchmarks.performance_page
      measure this version and write docs/performance.md
  git archive v0.1.0 --prefix=v010/ | tar -x -C /tmp
  python -m benchmarks.performance_page --baseline /tmp/v010 --ray /tmp/ray/bin/python
      also compare with an older version, and run batches on Ray
  python -m benchmarks.performance_page --only service profile
      measure two sections again; the page says that they are from another run
  python -m benchmarks.performance_page --quick
      try every section, and show its tables; nothing is written
  python -m benchmarks.performance_page --write
      only write the tables again from benchmarks/results/performance.json

Use a machine that does nothing else. It takes about twenty minutes."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    given = _parser().parse_args(arguments)
    try:
        if given.write:
            write_page(load(given.results or RESULTS), given.page)
            return 0
        return run(given)
    except (MeasurementError, PageError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def run(given: argparse.Namespace) -> int:
    """Measure, save the numbers, and write the page unless this was only a try."""
    check_python()
    setup = Setup(
        now=Version("now", ROOT),
        baseline=checkout("before", given.baseline) if given.baseline else None,
        ray=given.ray,
        quick=given.quick,
    )
    path: Path | None = given.results or (None if given.quick else RESULTS)
    earlier = load(path) if path is not None and given.only else {"runs": {}, "sections": {}}
    results = measure(setup, given.only or list(SECTIONS), earlier, path)
    if given.quick:
        say("tried with --quick: the page is not written. What it would be:")
        print(_preview(results))
        return 0
    write_page(results, given.page)
    return 0


def measure(setup: Setup, names: Sequence[str], results: Results, path: Path | None) -> Results:
    """Measure sections one after the other, and save the results after each.

    Args:
        setup: What to measure with.
        names: The sections.
        results: The results of earlier runs, whose other sections are kept.
        path: Where to save results.

    Raises:
        MeasurementError: If a measurement fails.
    """
    run_facts: dict[str, Any] = facts(setup.now, setup.baseline, quick=setup.quick)
    run_id = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    results["runs"][run_id] = run_facts
    began = time.monotonic()
    for place, name in enumerate(names, 1):
        say(f"{place}/{len(names)} {name}: {SECTIONS[name].what}")
        started = time.monotonic()
        numbers = SECTIONS[name].measure(setup)
        seconds = time.monotonic() - started
        results["sections"][name] = {"run": run_id, "seconds": round(seconds, 1), "numbers": numbers}
        run_facts["seconds"], run_facts["load_after"] = round(time.monotonic() - began, 1), os.getloadavg()[0]
        say(f"    {seconds:.0f} seconds")
        if path is not None:
            save(results, path)
    return results


def write_page(results: Results, page: Path) -> None:
    """Write the generated parts of the page.

    Raises:
        PageError: If results are missing or were only tried.
    """
    page.write_text(written(page.read_text(encoding="utf-8"), results), encoding="utf-8")
    say(f"wrote {page}")


def say(line: str) -> None:
    """Show progress."""
    print(line, file=sys.stderr, flush=True)


def _preview(results: Results) -> str:
    """Return the tables of results that were only tried, as far as there are any."""
    tried = {name: {**run, "quick": False} for name, run in results["runs"].items()}
    try:
        return "\n\n".join(f"{name}:\n{part}" for name, part in generated({**results, "runs": tried}).items())
    except PageError as error:
        return f"no tables: {error}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.performance_page",
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--baseline", type=Path, metavar="DIR", help="a checkout of an older version to compare with")
    parser.add_argument("--ray", metavar="PYTHON", help="the interpreter of an environment that has Ray")
    parser.add_argument("--only", nargs="+", choices=list(SECTIONS), metavar="SECTION", help=", ".join(SECTIONS))
    parser.add_argument("--quick", action="store_true", help="only try whether every section works")
    parser.add_argument("--write", action="store_true", help="do not measure: write the page from the results")
    parser.add_argument("--results", type=Path, metavar="FILE", help="default: benchmarks/results/performance.json")
    parser.add_argument("--page", type=Path, default=PAGE, metavar="FILE", help="default: docs/performance.md")
    return parser


if __name__ == "__main__":
    sys.exit(main())
