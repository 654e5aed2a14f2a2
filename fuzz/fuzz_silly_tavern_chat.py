"""The properties of SillyTavern's chat building, for as many rounds as TAVERNKIT_FUZZ_ROUNDS says."""

from __future__ import annotations

import os

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.silly_tavern import chat_properties as p
from tests.silly_tavern.reference import properties as reference

long = settings(max_examples=int(os.environ.get("TAVERNKIT_FUZZ_ROUNDS", "20000")), deadline=None)

test_presets_are_written_back_as_they_were_read = long(given(p.presets)(p.check_preset_round_trip))
test_any_text_can_be_read_as_a_chat = long(given(st.text(max_size=400))(p.check_any_text_is_a_chat))
test_example_dialogue_never_fails = long(
    given(p.texts, p.texts, p.texts, st.lists(p.texts, max_size=2))(p.check_examples)
)
test_builds_fit_explain_themselves_and_repeat = long(given(p.scenes())(p.check_build))
test_prompts_equal_the_straightforward_ones = long(given(reference.seeds)(reference.check_chat))
