"""Rules of a scan at their edges, where the vectors do not look."""

from __future__ import annotations

import pytest

from tavernkit.silly_tavern._world_info import Reason, WorldBook, WorldInfoSettings, forced_entry
from tavernkit.silly_tavern._world_info.matching import logic_holds
from tavernkit.silly_tavern._world_info.selection import token_limit
from tests.silly_tavern.world_info.scanning import make_book, scan

RECURSIVE = WorldInfoSettings(recursive=True)


def contents(*found: object) -> list[str]:
    return [one.content for one in found]  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize(("with_hash", "text"), [(True, "found"), (False, "")])
def test_a_forced_object_is_sticky_only_by_the_hash_it_carries(with_hash: bool, text: str) -> None:
    book = make_book({"key": ["lamp"], "content": "found", "sticky": 5, "useProbability": True, "probability": 100})
    before = scan(book, "lamp")
    (stored,) = before.activated
    forced = {**forced_entry(stored.entry), "probability": 50}
    if not with_hash:
        del forced["hash"]
    after = scan(book, "and", "lamp", forced=[forced], timed_state=before.timed_state, random=lambda: 0.9)
    assert after.before == text


def test_a_forced_object_is_scored_by_all_the_messages_its_own_depth_reaches() -> None:
    book = make_book(
        {"key": ["lamp"], "content": "stored", "group": "light"},
        {"constant": True, "content": "rival", "group": "light"},
    )
    forced = {"world": "Lore", "uid": 0, "key": ["oil"], "content": "forced", "group": "light", "scanDepth": 9}
    settings = WorldInfoSettings(depth=1, use_group_scoring=True)
    found = scan(book, "and", "so", "oil", settings=settings, forced=[forced], random=lambda: 0.99)
    assert contents(*found.activated) == ["forced"]


def test_an_entry_without_a_level_does_not_wait_for_one_below_zero() -> None:
    book = make_book(
        {"key": ["zzz"], "content": "deep", "delayUntilRecursion": -5},
        {"key": ["lamp"], "content": "oil"},
        {"key": ["oil"], "content": "slippery"},
    )
    assert sorted(contents(*scan(book, "lamp", settings=RECURSIVE).activated)) == ["oil", "slippery"]


@pytest.mark.parametrize(("cap", "limit"), [(0, 250), (1, 1), (249, 249), (250, 250), (251, 250)])
def test_the_cap_counts_from_one_on(cap: int, limit: int) -> None:
    assert token_limit(WorldInfoSettings(budget=25, budget_cap=cap), 1000) == limit


def test_an_effect_follows_the_hash_of_its_entry_and_not_the_name() -> None:
    book = make_book({"key": ["lamp"], "content": "found", "sticky": 5})
    (record,) = scan(book, "lamp").timed_state["sticky"].values()
    assert scan(book, "and", "lamp", timed_state={"sticky": {"Renamed.9": record}}).before == "found"


@pytest.mark.parametrize("duration", ["long", "Infinity", {}])
def test_an_effect_whose_duration_is_no_number_is_stored_as_json_can_hold_it(duration: object) -> None:
    book = make_book({"key": ["lamp"], "content": "found", "sticky": duration})
    (record,) = scan(book, "lamp").timed_state["sticky"].values()
    assert isinstance(record, dict)
    assert record["end"] is None


@pytest.mark.parametrize(("outlet", "filed_under"), [(5, "5"), (True, "true"), (0, None), (None, None)])
def test_an_outlet_may_be_named_by_a_number(outlet: object, filed_under: str | None) -> None:
    book = make_book({"constant": True, "content": "found", "position": 7, "outletName": outlet})
    placed = scan(book, "x", warn=lambda _: None).placement.outlets
    assert list(placed) == ([filed_under] if filed_under else [])


def test_a_cooldown_below_zero_still_counts_in_the_turn_in_which_it_begins() -> None:
    book = make_book({"key": ["lamp"], "content": "found", "sticky": 1, "cooldown": -1})
    state = scan(book, "lamp").timed_state
    ended = scan(book, "lamp", "lamp", timed_state=state)
    assert ended.before == ""
    assert scan(book, "lamp", "lamp", "lamp", timed_state=ended.timed_state).before == "found"


def test_the_pass_in_which_an_entry_got_furthest_is_the_one_that_is_told() -> None:
    book = make_book(
        {"key": ["/o.l/"], "content": "slippery", "useProbability": True, "probability": 10},
        {"key": ["lamp"], "content": "oil"},
        {"key": ["oil"], "content": "lantern"},
    )
    result = scan(book, "lamp", settings=RECURSIVE, random=lambda: 0.5)
    assert result.explain(0).reason is Reason.PROBABILITY


def test_what_ignores_the_budget_gets_in_after_it_is_used_up() -> None:
    book = make_book(
        {"constant": True, "content": "a b c d e f", "order": 40},
        {"constant": True, "content": "late", "order": 30},
        {"constant": True, "content": "free", "order": 20, "ignoreBudget": True},
        {"constant": True, "content": "last", "order": 10},
    )
    result = scan(book, "x", settings=WorldInfoSettings(budget=100), max_context=5)
    assert contents(*result.activated) == ["free"]
    assert [result.explain(uid).reason for uid in (0, 1, 3)] == [Reason.BUDGET] * 3


def test_a_forced_object_is_one_candidate_however_many_entries_have_its_name() -> None:
    entry = {"uid": 0, "key": [], "content": "listed"}
    book = WorldBook("Lore", {"entries": {"0": entry, "1": entry}})
    result = scan(book, "x", forced=[{"world": "Lore", "uid": 0, "content": "forced"}])
    assert result.passes[0].new == ("Lore.0",)


@pytest.mark.parametrize("logic", [True, False, None, "0", "3", 4, -1, 0.5, [0]])
@pytest.mark.parametrize("found", [[True, True], [True, False], [False]])
def test_a_logic_that_is_no_number_from_0_to_3_never_holds(logic: object, found: list[bool]) -> None:
    assert not logic_holds(logic, found)


def test_group_scoring_looks_for_regex_keys_in_the_text_as_it_is_written() -> None:
    book = make_book(
        {"key": ["/Lamp/", "oil"], "content": "two", "group": "g"},
        {"key": ["oil"], "content": "one", "group": "g"},
    )
    settings = WorldInfoSettings(use_group_scoring=True)
    assert scan(book, "Lamp oil", settings=settings, random=lambda: 0.99).before == "two"


@pytest.mark.parametrize(("logic", "winner"), [(0, "two"), (3, "two"), (1, "one"), (2, "one"), (False, "one")])
def test_group_scoring_counts_secondary_keys_of_the_two_and_logics(logic: object, winner: str) -> None:
    book = make_book(
        {
            "key": ["oil"],
            "keysecondary": ["lamp"],
            "selective": False,
            "selectiveLogic": logic,
            "content": "two",
            "group": "g",
        },
        {"key": ["oil"], "content": "one", "group": "g"},
    )
    settings = WorldInfoSettings(use_group_scoring=True)
    assert scan(book, "lamp oil", settings=settings, random=lambda: 0.99).before == winner


def test_decorators_in_a_forced_object_are_text() -> None:
    book = make_book({"key": ["zzz"], "content": "listed"})
    forced = {"world": "Lore", "uid": 0, "content": "@@dont_activate\nforced", "position": 0}
    assert scan(book, "x", forced=[forced]).before == "@@dont_activate\nforced"


@pytest.mark.parametrize("roll", [0.0, 0.999])
def test_groups_are_scored_by_the_messages_that_the_search_has_reached(roll: float) -> None:
    book = make_book(
        {"key": ["dragon"], "content": "one key", "group": "g"},
        {"key": ["dragon", "fire"], "content": "both keys", "group": "g"},
        {"key": ["dragon"], "content": "one key too", "group": "g"},
    )
    settings = WorldInfoSettings(depth=1, min_activations=1, use_group_scoring=True)
    result = scan(book, "hello", "hm", "dragon fire", settings=settings, random=lambda: roll)
    assert [entry.content for entry in result.activated_entries] == ["both keys"]


@pytest.mark.parametrize(("most", "found"), [(0, ["old"]), (1, []), (2, ["old"])])
def test_the_search_goes_back_one_message_beyond_its_limit_at_most(most: int, found: list[str]) -> None:
    book = make_book({"key": ["dragon"], "content": "old"})
    settings = WorldInfoSettings(depth=1, min_activations=1, min_activations_depth_max=most)
    assert [
        entry.content for entry in scan(book, "hello", "hm", "dragon", settings=settings).activated_entries
    ] == found


def test_entries_of_one_pass_are_searched_as_lines_of_one_text() -> None:
    book = make_book(
        {"key": ["go"], "content": "alpha", "order": 2},
        {"key": ["go"], "content": "beta", "order": 1},
        {"key": ["/(alpha|beta)\\n(alpha|beta)/"], "content": "both"},
    )
    result = scan(book, "go", settings=WorldInfoSettings(recursive=True))
    assert [entry.content for entry in result.activated_entries][2:] == ["both"]


def test_an_entry_that_won_its_roll_tells_the_roll() -> None:
    book = make_book(
        {"key": ["go"], "content": "lucky", "useProbability": True, "probability": 40},
        {"key": ["go"], "content": "sure", "useProbability": True, "probability": 100},
    )
    result = scan(book, "go", random=lambda: 0.25)
    lucky, sure = (result.explain(uid) for uid in (0, 1))
    assert (lucky.verdict.rolled, sure.verdict.rolled) == (25.0, None)
    assert lucky.text.endswith("rolled 25.0 of 40%")


def test_an_entry_that_waits_tells_how_long() -> None:
    book = make_book(
        {"key": ["go"], "content": "late", "delay": 3},
        {"key": ["go"], "content": "off", "disable": True, "delay": 3},
    )
    late, off = (scan(book, "go").explain(uid) for uid in (0, 1))
    assert (late.verdict.until, off.verdict.until) == (3, None)
    assert "3" in late.text


@pytest.mark.parametrize("logic", [0, None])
@pytest.mark.parametrize(("text", "active"), [("go ice", 1), ("go", 0), ("go ice fire", 1)])
def test_a_logic_of_null_asks_for_any_secondary_key(logic: int | None, text: str, active: int) -> None:
    book = make_book({"key": ["go"], "keysecondary": ["ice", "fire"], "selective": True, "selectiveLogic": logic})
    assert len(scan(book, text).activated_entries) == active
