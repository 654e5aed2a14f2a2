from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tavernkit.budget._tokenizers import WORD_VOCABULARIES
from tests.budget import properties as p

quick = settings(max_examples=60, deadline=None)

test_counts_agree_and_texts_round_trip = quick(given(p.names, p.texts)(p.check_counts_and_round_trip))
test_counting_by_lines_and_words_is_exact = settings(max_examples=300, deadline=None)(
    given(st.sampled_from(sorted(WORD_VOCABULARIES)), p.spaced_texts)(p.check_counts)
)
test_openai_encodings_equal_tiktokens_algorithm = quick(
    given(p.encodings, p.assigned_texts)(p.check_equals_tiktokens_algorithm)
)
test_estimates_never_raise = quick(given(p.texts | p.broken_texts, p.models)(p.check_estimates_never_raise))
test_offsets_cover_the_text = quick(given(p.texts)(p.check_offsets_cover_the_text))
test_trimming_keeps_its_promises = settings(max_examples=300, deadline=None)(
    given(p.block_lists(), st.integers(0, 60), st.integers(0, 2), st.sampled_from(["group_order", "priority"]))(
        p.check_trim
    )
)
