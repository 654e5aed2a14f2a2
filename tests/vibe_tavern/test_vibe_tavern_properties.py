"""What holds for every input of this room."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.vibe_tavern import properties as p

counters = st.integers(0, 5000)
cuts = st.lists(st.integers(0, 60), max_size=6)

test_json_is_read_back = given(p.json_values)(p.check_json_round_trip)
test_parser_gives_an_object_or_a_code = given(p.answers)(p.check_parser_gives_an_object_or_a_code)
test_envelopes_in_prose_are_found = given(p.json_values, p.texts, p.texts)(p.check_envelopes_around_prose_are_found)
test_validator_gives_clean_directives = given(p.envelopes | p.json_values)(p.check_validator_gives_clean_directives)
test_patches_stay_below_their_prefixes = given(p.patches | p.json_values)(p.check_patches_stay_below_their_prefixes)
test_streamed_text_is_the_text_of_the_whole = given(p.tag_pieces)(p.check_stream_equals_whole)
test_text_without_tags_is_untouched = given(p.texts)(p.check_plain_text_is_untouched)
test_templates_never_raise_in_tolerant_mode = given(p.templates)(p.check_templates_never_raise)
test_careless_outputs_are_rendered = given(p.careless)(p.check_careless_outputs_are_rendered)
test_text_without_syntax_is_itself = given(p.texts)(p.check_text_without_syntax_is_itself)
test_random_values_repeat_and_stay_in_range = given(p.texts, counters)(p.check_random_values)
test_arguments_are_an_object_or_refused = given(p.json_values)(p.check_arguments_are_an_object_or_refused)
test_call_ids_are_unique = given(p.calls)(p.check_call_ids_are_unique)
test_any_schema_can_be_asked = given(p.json_values, p.schemas)(p.check_any_schema_can_be_asked)
test_policy_never_splits_calls_and_results = given(p.roles)(p.check_policy_never_follows_tool_calls)
test_portions_of_a_stream_do_not_matter = given(p.event_lines, cuts)(p.check_portions_do_not_matter)
test_sections_are_read_or_refused = given(p.json_values)(p.check_sections_are_read_or_refused)
test_split_calls_are_put_together = given(st.lists(p.texts, max_size=4), cuts)(p.check_split_calls_are_put_together)
test_any_calls_can_be_read = given(p.calls | p.json_values)(p.check_any_calls_can_be_read)
test_whatever_a_server_streams_becomes_chunks = given(
    p.openai_events, st.lists(p.anthropic_events, max_size=3), p.google_events
)(p.check_whatever_a_server_streams_becomes_chunks)
