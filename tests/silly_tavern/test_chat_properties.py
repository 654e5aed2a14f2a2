from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.silly_tavern import chat_properties as p

quick = settings(max_examples=60, deadline=None)

test_presets_are_written_back_as_they_were_read = quick(given(p.presets)(p.check_preset_round_trip))
test_any_text_can_be_read_as_a_chat = quick(
    given(st.text(max_size=80) | st.lists(p.lines).map(repr))(p.check_any_text_is_a_chat)
)
test_example_dialogue_never_fails = quick(
    given(p.texts, p.texts, p.texts, st.lists(p.texts, max_size=2))(p.check_examples)
)
test_builds_fit_explain_themselves_and_repeat = quick(given(p.scenes())(p.check_build))
