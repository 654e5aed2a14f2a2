"""The properties of triggers, quickly. ``fuzz/fuzz_risu_triggers.py`` tries many more."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.risu_ai.triggers import properties as p

quick = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])

test_programs_never_raise = quick(given(p.programs, p.modes, p.names, st.booleans())(p.check_programs_never_raise))
test_runs_repeat = quick(given(p.programs)(p.check_runs_repeat))
test_commands_never_raise = quick(given(p.lines)(p.check_commands_never_raise))
test_patterns_agree = quick(given(p.subjects, p.patterns, p.replacements, st.integers(-3, 14))(p.check_patterns_agree))
test_json_round_trips = quick(given(p.json_values)(p.check_json_round_trips))
