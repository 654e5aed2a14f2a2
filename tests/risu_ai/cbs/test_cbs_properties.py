"""The properties of CBS, quickly. ``fuzz/fuzz_cbs.py`` tries many more texts."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.risu_ai.cbs import properties as p

quick = settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])

test_tree_equals_scanner_on_soup = quick(given(p.soups, st.booleans())(p.check_tree_equals_scanner))
test_tree_equals_scanner_on_nested_blocks = quick(given(p.trees, st.booleans())(p.check_tree_equals_scanner))
test_tree_equals_naive_reading_of_soup = quick(given(p.soups)(p.check_tree_equals_naive_reading))
test_tree_equals_naive_reading_of_nested_blocks = quick(given(p.trees)(p.check_tree_equals_naive_reading))
test_expansion_never_raises = quick(given(p.any_texts)(p.check_never_raises))
test_plain_text_is_unchanged = quick(given(p.plain_texts)(p.check_plain_text_is_unchanged))
test_expansion_is_deterministic = quick(given(p.programs)(p.check_deterministic))
test_strict_mode_agrees_or_raises = quick(given(p.any_texts)(p.check_strict_agrees_or_raises))
test_calculator_gives_numbers = quick(given(p.expressions)(p.check_calculator_gives_numbers))
test_pure_functions_need_only_arguments = quick(
    given(p.functions, p.arguments)(p.check_pure_functions_need_only_arguments)
)
test_media_never_raise = quick(given(p.any_texts)(p.check_media_never_raise))
