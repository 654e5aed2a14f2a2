"""The properties of card files, for as many rounds as TAVERNKIT_FUZZ_ROUNDS says."""

from __future__ import annotations

import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cards import mutations
from tests.cards import properties as p

ROUNDS = int(os.environ.get("TAVERNKIT_FUZZ_ROUNDS", "20000"))
long = settings(max_examples=ROUNDS, deadline=None)
formats = st.sampled_from(p.CARD_FORMATS)
versions = st.sampled_from(["v1", "v2", "v3"])

test_load_after_save_is_the_identity = long(given(p.cards, formats)(p.check_round_trip))
test_saving_again_changes_no_byte = long(given(p.cards, formats)(p.check_saving_is_stable))
test_json_keeps_any_unicode = long(
    given(st.recursive(p.any_texts, lambda inner: st.dictionaries(p.any_texts, inner)))(p.check_any_unicode_in_json)
)
test_yaml_reads_back_what_it_wrote = long(given(p.yaml_values)(p.check_yaml))
test_edits_survive_every_format = long(
    given(p.v1_cards | p.v2_cards | p.v3_cards, formats, p.whole_texts, st.lists(p.whole_texts, max_size=3))(
        p.check_edit_survives
    )
)
test_every_version_converts_and_back = long(given(p.v2_cards | p.v3_cards, versions)(p.check_versions))
test_assets_survive_every_format = long(given(p.v3_cards, p.assets, formats)(p.check_assets))
test_modules_round_trip = long(given(p.modules, p.assets)(p.check_module))
test_the_validator_takes_anything = long(given(p.cards | p.json_objects)(p.check_validator_never_fails))


@pytest.mark.parametrize("family", mutations.FAMILIES)
def test_damaged_files_cost_no_more_than_the_limits(family: str) -> None:
    mutations.try_mutants(family, range(ROUNDS))


@pytest.mark.parametrize("family", mutations.IMPORTED_AS)
def test_importers_raise_only_our_errors_on_damaged_files(family: str) -> None:
    mutations.try_importers(family, range(ROUNDS))
