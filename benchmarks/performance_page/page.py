"""Writing the page: each generated part stands between two comments, ``<!-- measured: NAME -->`` and the end."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from benchmarks.performance_page import tables
from benchmarks.performance_page.results import Results, main_run
from benchmarks.performance_page.versions import ROOT

PAGE = ROOT / "docs" / "performance.md"
PART = re.compile(r"(<!-- measured: (\w+) -->\n).*?(<!-- end of what was measured -->)", re.DOTALL)

PARTS: Mapping[str, tuple[str, Callable[[Mapping[str, Any]], str]]] = {
    "builds": ("builds", tables.builds),
    "memory": ("memory", tables.memory),
    "start_up": ("start_up", tables.start_up),
    "growth": ("growth", tables.growth),
    "large_books": ("large_books", tables.large_books),
    "source_maps": ("source_maps", tables.source_maps),
    "regular_expressions": ("regular_expressions", tables.regular_expressions),
    "pattern_costs": ("regular_expressions", tables.pattern_costs),
    "service": ("service", tables.service),
    "profile": ("profile", tables.profile),
}
"""Parts of the page: the section that their numbers come from, and what makes Markdown of them."""
RUN, BATCHES = "run", "batches"


class PageError(Exception):
    """The page cannot be written from these results."""


def parts_of(text: str) -> dict[str, str]:
    """Return the generated parts of a page by their names."""
    return {match[2]: match[0].removeprefix(match[1]).removesuffix(match[3]) for match in PART.finditer(text)}


def written(text: str, results: Results) -> str:
    """Return a page with its generated parts made again.

    Args:
        text: The page.
        results: What was measured.

    Raises:
        PageError: If a section is missing or was only tried, or the page has other parts than we make.
    """
    made = generated(results)
    if sorted(match[2] for match in PART.finditer(text)) != sorted(made):
        raise PageError(f"the page must have these parts, each once: {', '.join(made)}")
    return PART.sub(lambda match: f"{match[1]}\n{made[match[2]]}\n\n{match[3]}", text)


def generated(results: Results) -> dict[str, str]:
    """Return the generated parts of the page by their names.

    Raises:
        PageError: If a section is missing or was only tried.
    """
    sections = results["sections"]
    needed = dict.fromkeys([*(section for section, _ in PARTS.values()), BATCHES])
    if missing := [name for name in needed if name not in sections]:
        raise PageError(f"not measured yet: {', '.join(missing)}")
    if quick := [name for name in needed if results["runs"][sections[name]["run"]]["quick"]]:
        raise PageError(f"only tried, with --quick: {', '.join(quick)}")
    made = {RUN: run_facts(results)}
    for part, (section, show) in PARTS.items():
        made[part] = show(sections[section]["numbers"]) + _of_another_run(results, section)
    batches = tables.batches(sections[BATCHES]["numbers"], sections["memory"]["numbers"])
    made[BATCHES] = batches + _of_another_run(results, BATCHES)
    return made


def run_facts(results: Results) -> str:
    """Say when, where and with what most sections were measured."""
    run = results["runs"][main_run(results)]
    changed = f" with changes in {', '.join(run['changed_files'])}" if run["changed_files"] else ""
    baseline = f", alternating with {run['baseline']}" if run["baseline"] else ""
    others = {section["run"] for section in results["sections"].values()} - {main_run(results)}
    exceptions = " Some sections are from other runs, as they say." if others else ""
    return (
        f"Measured on {run['date']}: version {run['version']} (commit `{run['commit']}`{changed}){baseline}, "
        f"with {run['python']} on {run['cores']} cores ({run['cpu']}, {run['system']}), "
        f"in {run['seconds'] / 60:.0f} minutes. The load average was {run['load_before']:.1f} before the run, and "
        f"{run['load_after']:.1f} after it with the run's own load.{exceptions}"
    )


def _of_another_run(results: Results, section: str) -> str:
    name = results["sections"][section]["run"]
    if name == main_run(results):
        return ""
    run = results["runs"][name]
    return (
        f"\n\nThis section is from another run: {run['date']}, commit `{run['commit']}`, "
        f"load average {run['load_before']:.1f} before it."
    )
