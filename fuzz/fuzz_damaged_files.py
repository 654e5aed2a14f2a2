"""Damaged files of every kind, for as many rounds as TAVERNKIT_FUZZ_ROUNDS says."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.damaged import KINDS, check_damage_is_survived, damaged


@pytest.mark.parametrize("kind", KINDS)
@settings(
    max_examples=int(os.environ.get("TAVERNKIT_FUZZ_ROUNDS", "20000")),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(data=st.data())
def test_damaged_files_are_used_or_refused(kind: str, data: st.DataObject) -> None:
    check_damage_is_survived(kind, data.draw(damaged(kind)))
