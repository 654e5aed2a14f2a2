"""The section about builds: benchmarks of both versions in turn, by both clocks, and first builds in new processes."""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.new_process import least
from benchmarks.performance_page.versions import MeasurementError, Setup, Version

CLOCKS = {"processor_ms": "time.process_time", "clock_ms": "time.perf_counter"}
NO_SUCH_TEST = 4
"""Pytest's exit code if a version does not have one of the tests."""

BENCHMARKS = {
    "bench_world_info": ("test_scan", "test_compile", "test_scan_with_a_thousand_regex_keys"),
    "bench_st_macros": ("test_card_field_first_time", "test_card_field_again"),
    "bench_cbs": ("test_panel_first_run", "test_panel_repeated_with_other_values"),
    "bench_st_build": ("test_first_build", "test_next_turn", "test_next_turn_of_a_long_history"),
    "bench_st_text": ("test_first_build", "test_next_turn", "test_next_turn_of_a_long_history"),
    "bench_risu_build": ("test_first_build", "test_next_turn", "test_next_turn_of_a_long_history"),
    "bench_risu_lore": ("test_scan_10000_entries", "test_compile_10000_entries"),
    "bench_cards": ("test_load_a_png_card",),
    "bench_budget": ("test_trim_10000_blocks_that_fit",),
    "bench_dialects": ("test_convert_1000_messages_strictly",),
    "bench_vibe_tavern": ("test_build_request", "test_ten_tool_rounds"),
    "bench_risu_triggers": ("test_a_lua_handler",),
}
FITTING = """
from benchmarks.bench_st_text import inputs
from tavernkit.silly_tavern import Builder
given = inputs()
plan = Builder(**given).build(message="Who keeps the tower?")
texts = [line.mes[:120] for line in given["history"]]
print(sum(text in plan.prompt for text in texts if text))
"""


def measure_builds(setup: Setup) -> dict[str, Any]:
    """Return the least times of every benchmark and of first builds, for each version."""
    found: dict[str, Any] = {version.name: {} for version in setup.versions}
    for module, tests in BENCHMARKS.items():
        for _ in range(setup.rounds(2)):
            for clock in CLOCKS:
                for version in setup.versions:
                    for test, milliseconds in _run(version, module, tests, clock, quick=setup.quick).items():
                        times = found[version.name].setdefault(f"{module}::{test}", {})
                        times[clock] = min(milliseconds, times.get(clock, milliseconds))
    processes: dict[str, list[dict[str, list[float]]]] = {version.name: [] for version in setup.versions}
    for turn in range(1 + setup.rounds(10)):
        for version in setup.versions:
            times = version.json_of(version.command("new_process.py", "--measure", "cold"))
            if turn:  # the first one only compiles
                processes[version.name].append(times)
    for name, times in processes.items():
        for what, (processor, clock) in least(times).items():
            found[name][what] = {"processor_ms": processor, "clock_ms": clock}
    for version in setup.versions:
        found[version.name]["messages that fit"] = int(version.run([version.python, "-c", FITTING]))
    return found


def _run(version: Version, module: str, tests: tuple[str, ...], clock: str, *, quick: bool) -> dict[str, float]:
    """Run benchmarks of a version with one of the clocks; those that it does not have are left out."""
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "benchmark.json"
        command = [version.python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "python_files=bench_*.py"]
        command += [f"benchmarks/{module}.py::{test}" for test in tests]
        command += ["--benchmark-enable", "--benchmark-only", f"--benchmark-json={result}"]
        command += [f"--benchmark-timer={CLOCKS[clock]}", f"--benchmark-max-time={0.05 if quick else 0.7}"]
        done = subprocess.run(
            command, cwd=version.root, env=version.environment, capture_output=True, text=True, check=False
        )
        if done.returncode == NO_SUCH_TEST:
            present = {test: _run(version, module, (test,), clock, quick=quick) for test in tests if len(tests) > 1}
            return {name: value for each in present.values() for name, value in each.items()}
        if not result.exists():
            raise MeasurementError(f"{' '.join(command)}\n{done.stdout[-3000:]}{done.stderr[-2000:]}")
        benchmarks = json.loads(result.read_text(encoding="utf-8"))["benchmarks"]
    return {each["name"]: 1000 * each["stats"]["min"] for each in benchmarks}
