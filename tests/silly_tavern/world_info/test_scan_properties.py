from hypothesis import given, settings

from tests.silly_tavern.world_info import properties as p


@settings(max_examples=150, deadline=None)
@given(p.scenarios)
def test_scan_equals_the_straightforward_one(scenario: dict[str, object]) -> None:
    p.check_scan_equals_the_straightforward_one(scenario)
