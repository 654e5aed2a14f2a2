from __future__ import annotations

from hypothesis import given, settings

from tests.silly_tavern.reference import properties as p

quick = settings(max_examples=150, deadline=None)

test_chat_prompts_equal_the_straightforward_ones = quick(given(p.seeds)(p.check_chat))
test_text_prompts_equal_the_straightforward_ones = quick(given(p.seeds)(p.check_text))
