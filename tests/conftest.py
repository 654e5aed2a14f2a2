"""Settings of all tests."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# How long examples take to make says how busy the machine is, and nothing about the code.
settings.register_profile("tests", suppress_health_check=(HealthCheck.too_slow,), deadline=None)
settings.load_profile("tests")
