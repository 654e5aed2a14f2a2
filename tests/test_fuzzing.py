"""A short run of what ``make fuzz`` does for long."""

from __future__ import annotations

import pytest

from fuzz.guided import loop
from fuzz.targets import TARGETS


@pytest.mark.parametrize("name", TARGETS)
def test_a_few_inputs(name: str) -> None:
    loop(TARGETS[name], runs=150, seed=7)
