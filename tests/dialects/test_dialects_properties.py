from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.dialects import properties as p

quick = settings(max_examples=150, deadline=None)

test_payloads_are_plain_json = quick(
    given(p.conversations, p.dialects, st.booleans(), st.booleans())(p.check_payloads_are_plain_json)
)
test_nothing_is_lost_by_default = quick(given(p.conversations)(p.check_nothing_is_lost_by_default))
test_anthropic_accepts_the_strict_form = quick(given(p.conversations)(p.check_anthropic_accepts_the_strict_form))
test_google_accepts_the_strict_form = quick(given(p.conversations)(p.check_google_accepts_the_strict_form))
