"""The properties of the linter and the report, for as many rounds as TAVERNKIT_FUZZ_ROUNDS says."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, given, settings

from tests.lint import properties as p

rounds = int(os.environ.get("TAVERNKIT_FUZZ_ROUNDS", "20000"))
long = settings(max_examples=rounds, deadline=None, suppress_health_check=[HealthCheck.too_slow])

test_linting_never_fails = long(given(p.files)(p.check_linting_never_fails))
test_texts_have_places = long(given(p.texts, p.languages)(p.check_texts_have_places))
test_pages_hold_one_script = long(given(p.texts, p.texts)(p.check_pages_hold_one_script))
