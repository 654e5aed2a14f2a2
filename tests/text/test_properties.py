"""The properties of this room, for a moment."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.text import properties as p

short = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])

test_engine_is_the_reference = short(
    given(p.patterns, p.pattern_flags, p.subjects | p.subjects_with_pairs)(p.check_engine_is_the_reference)
)
test_search_from_the_middle = short(
    given(p.patterns, p.pattern_flags, p.subjects, st.integers(0, 8))(p.check_search_from_is_like_cutting)
)
test_replacing_by_itself = short(
    given(p.patterns, p.pattern_flags, p.subjects | p.any_texts)(p.check_replacing_by_itself_changes_nothing)
)
test_templates_do_what_functions_do = short(
    given(p.patterns, p.pattern_flags, p.halved_texts | p.any_texts, p.template_pieces, p.template_pieces)(
        p.check_templates_do_what_functions_do
    )
)
test_offsets_of_matches = short(
    given(p.halved_texts | p.any_texts, st.lists(st.integers(0, 40), max_size=4))(p.check_offsets_of_matches)
)
test_parts_are_those_of_javascript = short(
    given(p.halved_texts | p.any_texts | p.many_characters)(p.check_parts_are_those_of_javascript)
)
test_anything_compiles_or_is_refused = short(
    given(st.text("ab()[]{}|*+?^$.\\dwpukPx123-,<>=!:é😀&~q", max_size=14), st.sampled_from(["", "u", "v", "i", "iv"]))(
        p.check_anything_compiles_or_is_refused
    )
)
test_numbers_read_back = short(given(p.numbers)(p.check_numbers_read_back))
test_radix_strings_read_back = short(
    given(st.integers(-(2**53), 2**53), st.integers(2, 36))(p.check_radix_strings_read_back)
)
test_utf16_offsets = short(given(p.any_texts)(p.check_utf16_offsets))
test_json_round_trip = short(given(p.json_values)(p.check_json_round_trip))
test_equality_is_symmetric = short(given(p.json_values, p.json_values)(p.check_equality_is_symmetric))
test_uri_round_trip = short(given(p.any_texts)(p.check_uri_round_trip))
test_masking_round_trip = short(given(st.text("`{}%\\<a\0VTCODE012", max_size=40))(p.check_masking_round_trip))
test_pointer_round_trip = short(given(st.lists(st.text("ab/~01é", max_size=4), max_size=4))(p.check_pointer_round_trip))
test_any_text_is_a_pointer_or_refused = short(
    given(st.text("/~01ab", max_size=10))(p.check_any_text_is_a_pointer_or_refused)
)
test_tags_normalize_once = short(
    given(st.lists(st.text("abxXZ019_", min_size=1, max_size=8), max_size=5).map("-".join))(p.check_tags_normalize_once)
)
