"""The dialects' properties, for as many rounds as TAVERNKIT_FUZZ_ROUNDS says."""

from __future__ import annotations

import os

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.dialects import properties as p

long = settings(max_examples=int(os.environ.get("TAVERNKIT_FUZZ_ROUNDS", "20000")), deadline=None)

test_payloads_are_plain_json = long(
    given(p.conversations, p.dialects, st.booleans(), st.booleans())(p.check_payloads_are_plain_json)
)
test_nothing_is_lost_by_default = long(given(p.conversations)(p.check_nothing_is_lost_by_default))
test_anthropic_accepts_the_strict_form = long(given(p.conversations)(p.check_anthropic_accepts_the_strict_form))
test_google_accepts_the_strict_form = long(given(p.conversations)(p.check_google_accepts_the_strict_form))
