"""Settings of all tests."""

from __future__ import annotations

import gc

from hypothesis import HealthCheck, settings

# The same examples in every run: `make fuzz` looks for new ones. How long they take to make says how busy the
# machine is, and nothing about the code.
settings.register_profile("tests", derandomize=True, suppress_health_check=(HealthCheck.too_slow,), deadline=None)
settings.load_profile("tests")


def pytest_collection_finish() -> None:
    """Let the collector leave alone what is there before the first test: thousands of vectors that stay to the end."""
    gc.collect()
    gc.freeze()
