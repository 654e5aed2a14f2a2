from typing import Any
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from tavernkit.silly_tavern._world_info import key_table
from tests.silly_tavern.world_info import properties as p


@settings(max_examples=150, deadline=None)
@given(p.scenarios)
def test_scan_equals_the_straightforward_one(scenario: dict[str, Any]) -> None:
    p.check_scan_equals_the_straightforward_one(scenario)


@settings(max_examples=100, deadline=None)
@given(p.scenarios)
def test_a_scan_that_compiles_only_the_keys_it_needs_gives_the_same(scenario: dict[str, Any]) -> None:
    with patch.object(key_table, "MANY_KEYS", 0):
        p.check_scan_equals_the_straightforward_one(scenario)


@settings(max_examples=150, deadline=None)
@given(p.odd_worlds)
def test_any_json_can_be_read_converted_and_scanned(world: Any) -> None:
    p.check_any_json_can_be_read_converted_and_scanned(world)


@settings(max_examples=80, deadline=None)
@given(p.odd_worlds | p.imports)
def test_any_file_is_imported_or_refused(world: Any) -> None:
    p.check_any_file_is_imported_or_refused(world)


@settings(max_examples=100, deadline=None)
@given(st.text("ab/\\,  \n", max_size=20))
def test_typed_keys_keep_their_letters(text: str) -> None:
    p.check_typed_keys_keep_their_letters(text)
