from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cards import properties as p

quick = settings(max_examples=60, deadline=None)
formats = st.sampled_from(p.CARD_FORMATS)
versions = st.sampled_from(["v1", "v2", "v3"])

test_load_after_save_is_the_identity = settings(max_examples=250, deadline=None)(
    given(p.cards, formats)(p.check_round_trip)
)
test_saving_again_changes_no_byte = quick(given(p.cards, formats)(p.check_saving_is_stable))
test_json_keeps_any_unicode = quick(
    given(st.recursive(p.any_texts, lambda inner: st.dictionaries(p.any_texts, inner)))(p.check_any_unicode_in_json)
)
test_yaml_reads_back_what_it_wrote = quick(given(p.yaml_values)(p.check_yaml))
test_edits_survive_every_format = quick(
    given(p.v1_cards | p.v2_cards | p.v3_cards, formats, p.whole_texts, st.lists(p.whole_texts, max_size=3))(
        p.check_edit_survives
    )
)
test_every_version_converts_and_back = quick(given(p.v2_cards | p.v3_cards, versions)(p.check_versions))
test_assets_survive_every_format = quick(given(p.v3_cards, p.assets, formats)(p.check_assets))
test_modules_round_trip = quick(given(p.modules, p.assets)(p.check_module))
test_the_validator_takes_anything = quick(given(p.cards | p.json_objects)(p.check_validator_never_fails))
test_small_codecs_round_trip = quick(given(st.binary(), p.texts)(p.check_small_codecs))
test_books_are_written_as_they_were_read = quick(given(p.books)(p.check_book))
