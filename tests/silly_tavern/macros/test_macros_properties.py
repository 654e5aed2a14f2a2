"""Properties of macro expansion, a few rounds each; `make fuzz` runs them for long."""

from __future__ import annotations

from hypothesis import given, settings

from tests.silly_tavern.macros import properties as p

quick = settings(max_examples=80, deadline=None)

test_any_text_expands_and_gives_the_same_each_time = quick(
    given(p.texts | p.well_formed)(p.check_never_raises_and_is_deterministic)
)
test_plain_text_comes_back_identical = quick(given(p.plain_texts)(p.check_plain_text_is_unchanged))
test_strict_mode_raises_only_macro_errors = quick(
    given(p.texts | p.well_formed)(p.check_strict_mode_raises_only_macro_errors)
)
test_tokens_are_in_order = quick(given(p.texts)(p.check_tokens_are_in_order))
test_parts_of_a_clean_text_parse_alike = quick(
    given(p.texts | p.well_formed)(p.check_parts_of_a_clean_text_parse_alike)
)
test_expansion_equals_the_straightforward_one = settings(quick, max_examples=400)(
    given(p.blocks | p.texts | p.well_formed)(p.check_expansion_equals_the_straightforward_one)
)
test_legacy_finders_do_what_their_patterns_do = quick(given(p.finder_texts)(p.check_finders_do_what_their_patterns_do))
test_legacy_passes_find_nothing_without_their_needle = quick(
    given(p.finder_texts | p.blocks | p.texts)(p.check_passes_find_nothing_without_their_needle)
)
