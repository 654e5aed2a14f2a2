"""World Info's properties, for as many rounds as TAVERNKIT_FUZZ_ROUNDS says."""

from __future__ import annotations

import os

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.silly_tavern.world_info import properties as p

long = settings(max_examples=int(os.environ.get("TAVERNKIT_FUZZ_ROUNDS", "20000")), deadline=None)

test_scan_equals_the_straightforward_one = long(given(p.scenarios)(p.check_scan_equals_the_straightforward_one))
test_any_json_can_be_read_converted_and_scanned = long(
    given(p.odd_worlds)(p.check_any_json_can_be_read_converted_and_scanned)
)
test_any_file_is_imported_or_refused = long(given(p.odd_worlds | p.imports)(p.check_any_file_is_imported_or_refused))
test_typed_keys_keep_their_letters = long(
    given(st.text("ab/\\,  \n", max_size=30))(p.check_typed_keys_keep_their_letters)
)
