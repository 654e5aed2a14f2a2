"""A busy machine takes longer and changes nothing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from tavernkit.errors import noting_degraded
from tests.conformance import runner

LOAD = 16
SURFACES = {
    "silly_tavern/regex_scripts": 6,
    "silly_tavern/build_chat": 5,
    "silly_tavern/build_text": 4,
    "risu_ai/regex_scripts": 6,
    "risu_ai/triggers_lua": 4,
    "risu_ai/jinja_templates": 3,
    "risu_ai/build": 4,
}
"""Recorded results that need worker processes or time limits, and how many of each are looked at."""


@pytest.fixture(scope="module")
def load() -> Iterator[None]:
    """Processes that want all of the processor."""
    hogs = [subprocess.Popen([sys.executable, "-S", "-c", "while True: pass"]) for _ in range(LOAD)]
    yield
    for hog in hogs:
        hog.kill()
        hog.wait()


@pytest.mark.usefixtures("load")
@pytest.mark.parametrize("surface", SURFACES)
def test_recorded_results_are_the_same_at_high_load(surface: str) -> None:
    cases = list(runner.cases(surface))
    chosen = cases[:: max(1, len(cases) // SURFACES[surface])]
    with noting_degraded() as reasons:
        failed = [case.id for case in chosen if runner.run(case).failed]
    assert failed == []
    assert reasons == []
