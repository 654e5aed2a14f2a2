"""The properties of CBS, for as many rounds as TAVERNKIT_FUZZ_ROUNDS says."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.risu_ai.cbs import properties as p

long = settings(
    max_examples=int(os.environ.get("TAVERNKIT_FUZZ_ROUNDS", "20000")),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)

test_tree_equals_scanner_on_soup = long(given(p.soups, st.booleans())(p.check_tree_equals_scanner))
test_tree_equals_scanner_on_nested_blocks = long(given(p.trees, st.booleans())(p.check_tree_equals_scanner))
test_tree_equals_naive_reading_of_soup = long(given(p.soups)(p.check_tree_equals_naive_reading))
test_tree_equals_naive_reading_of_nested_blocks = long(given(p.trees)(p.check_tree_equals_naive_reading))
test_expansion_never_raises = long(given(p.any_texts)(p.check_never_raises))
test_plain_text_is_unchanged = long(given(p.plain_texts)(p.check_plain_text_is_unchanged))
test_strict_mode_agrees_or_raises = long(given(p.any_texts)(p.check_strict_agrees_or_raises))
test_calculator_gives_numbers = long(given(p.expressions)(p.check_calculator_gives_numbers))
test_pure_functions_need_only_arguments = long(
    given(p.functions, p.arguments)(p.check_pure_functions_need_only_arguments)
)
test_media_never_raise = long(given(p.any_texts)(p.check_media_never_raise))
