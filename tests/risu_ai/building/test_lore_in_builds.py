"""What a build makes of a scan: the marks it stores, and lore that RisuAI itself would choke on."""

from __future__ import annotations

import pytest

from tavernkit.errors import PipelineError
from tavernkit.risu_ai.errors import DecoratorParseError
from tavernkit.stores import InMemoryVariablesStore
from tests.risu_ai.building.scene import build, character, contents, lore


def test_a_position_without_a_place_costs_only_that_entry():
    plan = build(character=character(globalLore=(lore("Fine."), lore("@@position\nBroken.", comment="Odd"))))
    assert any("Fine." in text for text in contents(plan))
    assert not any("Broken." in text for text in contents(plan))
    assert any("'Odd' is left out: @@position needs a place" in warning for warning in plan.warnings)


def test_a_position_without_a_place_is_an_error_in_strict_mode():
    with pytest.raises(PipelineError) as caught:
        build(character=character(globalLore=(lore("@@position\nBroken."),)), strict=True)
    assert isinstance(caught.value.__cause__, DecoratorParseError)


def test_an_entry_that_wants_to_be_remembered_is_marked_in_the_chat():
    store = InMemoryVariablesStore()
    entry = lore("@@keep_activate_after_match\nKept.", id="e1")
    plan = build(character=character(globalLore=(entry,)), variables=store)
    assert any("Kept." in text for text in contents(plan))
    assert plan.variables.values["local"]["__internal_ka_e1"] == "true"
