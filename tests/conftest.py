"""Settings of all tests."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# The same examples in every run: `make fuzz` looks for new ones. How long they take to make says how busy the
# machine is, and nothing about the code.
settings.register_profile("tests", derandomize=True, suppress_health_check=(HealthCheck.too_slow,), deadline=None)
settings.load_profile("tests")
