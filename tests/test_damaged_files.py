"""Whatever a file has in it, it is used as far as it goes or refused: nothing crashes."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.damaged import KINDS, check_damage_is_survived, damaged


@pytest.mark.parametrize("kind", KINDS)
def test_whole_files_are_used(kind: str) -> None:
    recorded, use = KINDS[kind]
    files = recorded()[:20]
    assert files
    for data in files:
        use(data)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(data=st.data())
def test_damaged_files_are_used_or_refused(kind: str, data: st.DataObject) -> None:
    check_damage_is_survived(kind, data.draw(damaged(kind)))
