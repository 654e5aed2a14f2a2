from __future__ import annotations

import pytest

from tests.cards import mutations


@pytest.mark.parametrize("family", mutations.FAMILIES)
def test_damaged_files_give_their_card_or_one_of_our_errors(family: str) -> None:
    usable = mutations.try_mutants(family, range(300))
    assert 0 < usable < 300


def test_a_mutant_can_be_made_again() -> None:
    assert mutations.mutate("png", 7) == mutations.mutate("png", 7) != mutations.mutate("png", 8)
