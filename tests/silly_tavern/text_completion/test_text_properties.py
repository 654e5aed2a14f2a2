from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.silly_tavern.text_completion import properties as p

quick = settings(max_examples=60, deadline=None)

test_builds_know_where_each_character_came_from = quick(given(p.scenes())(p.check_build))
test_clean_ups_never_fail = quick(given(p.texts, p.texts, p.texts, p.instructs, st.booleans())(p.check_clean_up))
