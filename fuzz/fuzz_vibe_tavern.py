"""The properties of running prompts on models, for as many rounds as TAVERNKIT_FUZZ_ROUNDS says."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.vibe_tavern import properties as p

long = settings(
    max_examples=int(os.environ.get("TAVERNKIT_FUZZ_ROUNDS", "20000")),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
cuts = st.lists(st.integers(0, 60), max_size=6)

test_json_is_read_back = long(given(p.json_values)(p.check_json_round_trip))
test_parser_gives_an_object_or_a_code = long(given(p.answers)(p.check_parser_gives_an_object_or_a_code))
test_envelopes_in_prose_are_found = long(
    given(p.json_values, p.texts, p.texts)(p.check_envelopes_around_prose_are_found)
)
test_validator_gives_clean_directives = long(
    given(p.envelopes | p.json_values)(p.check_validator_gives_clean_directives)
)
test_patches_stay_below_their_prefixes = long(
    given(p.patches | p.json_values)(p.check_patches_stay_below_their_prefixes)
)
test_streamed_text_is_the_text_of_the_whole = long(given(p.tag_pieces)(p.check_stream_equals_whole))
test_text_without_tags_is_untouched = long(given(p.texts)(p.check_plain_text_is_untouched))
test_templates_never_raise_in_tolerant_mode = long(given(p.templates)(p.check_templates_never_raise))
test_careless_outputs_are_rendered = long(given(p.careless)(p.check_careless_outputs_are_rendered))
test_text_without_syntax_is_itself = long(given(p.texts)(p.check_text_without_syntax_is_itself))
test_random_values_repeat_and_stay_in_range = long(given(p.texts, st.integers(0, 5000))(p.check_random_values))
test_arguments_are_an_object_or_refused = long(given(p.json_values)(p.check_arguments_are_an_object_or_refused))
test_call_ids_are_unique = long(given(p.calls)(p.check_call_ids_are_unique))
test_any_schema_can_be_asked = long(given(p.json_values, p.schemas)(p.check_any_schema_can_be_asked))
test_policy_never_splits_calls_and_results = long(given(p.roles)(p.check_policy_never_follows_tool_calls))
test_portions_of_a_stream_do_not_matter = long(given(p.event_lines, cuts)(p.check_portions_do_not_matter))
test_sections_are_read_or_refused = long(given(p.json_values)(p.check_sections_are_read_or_refused))
test_split_calls_are_put_together = long(
    given(st.lists(p.texts, max_size=4), cuts)(p.check_split_calls_are_put_together)
)
test_any_calls_can_be_read = long(given(p.calls | p.json_values)(p.check_any_calls_can_be_read))
test_whatever_a_server_streams_becomes_chunks = long(
    given(p.openai_events, st.lists(p.anthropic_events, max_size=3), p.google_events)(
        p.check_whatever_a_server_streams_becomes_chunks
    )
)
