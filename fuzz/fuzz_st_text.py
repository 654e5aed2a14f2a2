"""The properties of text completion, for as many rounds as TAVERNKIT_FUZZ_ROUNDS says."""

from __future__ import annotations

import os

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.silly_tavern.context_template import properties as story
from tests.silly_tavern.reference import properties as reference
from tests.silly_tavern.text_completion import properties as p

long = settings(max_examples=int(os.environ.get("TAVERNKIT_FUZZ_ROUNDS", "20000")), deadline=None)

test_templates_are_refused_with_a_place_or_rendered_whole = long(given(story.templates)(story.check_parts))
test_texts_without_tags_stay_as_they_are = long(given(story.templates)(story.check_plain))
test_builds_know_where_each_character_came_from = long(given(p.scenes())(p.check_build))
test_prompts_equal_the_straightforward_ones = long(given(reference.seeds)(reference.check_text))
test_clean_ups_never_fail = long(given(p.texts, p.texts, p.texts, p.instructs, st.booleans())(p.check_clean_up))
