from __future__ import annotations

from hypothesis import HealthCheck, given, settings

from tests.lint import properties as p

quick = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])

test_linting_never_fails = quick(given(p.files)(p.check_linting_never_fails))
test_texts_have_places = quick(given(p.texts, p.languages)(p.check_texts_have_places))
test_pages_hold_one_script = quick(given(p.texts, p.texts)(p.check_pages_hold_one_script))
