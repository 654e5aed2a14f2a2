"""World Info's properties, for as many rounds as TAVERNKIT_FUZZ_ROUNDS says."""

from __future__ import annotations

import os

from hypothesis import given, settings

from tests.silly_tavern.world_info import properties as p

long = settings(max_examples=int(os.environ.get("TAVERNKIT_FUZZ_ROUNDS", "20000")), deadline=None)

test_scan_equals_the_straightforward_one = long(given(p.scenarios)(p.check_scan_equals_the_straightforward_one))
