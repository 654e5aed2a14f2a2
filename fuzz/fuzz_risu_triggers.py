"""The properties of triggers, for as many rounds as TAVERNKIT_FUZZ_ROUNDS says."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.risu_ai.triggers import properties as p

long = settings(
    max_examples=int(os.environ.get("TAVERNKIT_FUZZ_ROUNDS", "20000")),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)

test_programs_never_raise = long(given(p.programs, p.modes, p.names, st.booleans())(p.check_programs_never_raise))
test_runs_repeat = long(given(p.programs)(p.check_runs_repeat))
test_commands_never_raise = long(given(p.lines)(p.check_commands_never_raise))
test_patterns_agree = long(given(p.subjects, p.patterns, p.replacements, st.integers(-3, 14))(p.check_patterns_agree))
test_json_round_trips = long(given(p.json_values)(p.check_json_round_trips))
