"""What maps cost, in calls of functions, and that maps made from known texts are those of a new builder."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType

import pytest

from benchmarks import bench_st_build
from benchmarks.bench_source_map import SCENARIOS, Turns, read_map
from tavernkit._text.regex_scripts import ScriptStretches
from tavernkit.prompt import Plan, SourceMap
from tavernkit.silly_tavern import Builder, RegexScripts
from tavernkit.silly_tavern._scripts import regex_scripts

TURNS = 3

BUILT_AGAIN = 1.0
"""A map that needs a build makes no more calls than that of its turn: both take twice the time of a build at most."""

KNOWN = 0.35
"""A map whose texts are known needs no build."""

MOST = {
    **dict.fromkeys(
        [f"{kind} {what}" for kind in ("chat", "text") for what in ("new message", "note", "injections", "group")],
        KNOWN,
    ),
    **dict.fromkeys(("risu new message", "risu note", "risu group"), KNOWN),
    **dict.fromkeys(("chat other lore", "chat variables"), 0.65),
    "chat hooks": 0.38,
    **dict.fromkeys([f"text {what}" for what in ("other lore", "variables", "hooks")], 0.8),
    **dict.fromkeys([f"risu {what}" for what in ("other lore", "variables", "hooks")], 0.8),
    "chat scripts": 0.25,
    "text scripts": 0.5,
}
"""What is less than the build of a turn."""

MADE_ANEW = [
    *(("chat new message", 0, 0.55), ("chat new message", 5, 2.0)),
    *(("chat scripts", 0, 0.2), ("chat scripts", 5, 4.3)),
    *(("text group", 0, 0.72), ("text group", 5, 2.2)),
    *(("text scripts", 0, 0.2), ("text scripts", 5, 4.2)),
    *(("risu group", 0, 0.7), ("risu group", 5, 1.2)),
]
"""The same for maps of new builders, and for the first one after five turns without."""


def calls(act: Callable[[], object]) -> int:
    """Count the functions that are called."""
    count = 0

    def note(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        act()
    finally:
        sys.setprofile(None)
    return count


def turn(turns: Turns, number: int) -> Callable[[], Plan]:
    """Skip turns without building them."""
    found = [next(turns) for _ in range(number)]
    return found[-1]


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_map_of_known_texts_is_quick_and_that_of_a_new_builder(name: str) -> None:
    turns = SCENARIOS[name]()
    for _ in range(TURNS):
        read_map(next(turns)())
    plans: list[Plan] = []
    build = next(turns)
    built = calls(lambda: plans.append(build()))
    mapped = calls(lambda: read_map(plans[0]))
    assert mapped < built * MOST.get(name, BUILT_AGAIN)
    known, fresh = plans[0].source_map(), turn(SCENARIOS[name](), TURNS + 1)().source_map()
    assert known.exact
    assert [text.to_dict() for text in known.messages] == [text.to_dict() for text in fresh.messages]


@pytest.mark.parametrize(("name", "turns_without", "most"), MADE_ANEW)
def test_a_first_map_takes_lines_from_the_plan_and_matches_from_the_build(
    name: str, turns_without: int, most: float
) -> None:
    turns = SCENARIOS[name]()
    for _ in range(turns_without):
        next(turns)()
    plans: list[Plan] = []
    build = next(turns)
    built = calls(lambda: plans.append(build()))
    assert calls(lambda: read_map(plans[0])) < built * most


def test_a_late_map_runs_only_scripts_that_find_something(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scripts that are known to find nothing in a text are skipped, and the map is that of all scripts."""
    ran: list[str] = []
    replace = regex_scripts.replace_traced
    monkeypatch.setattr(regex_scripts, "replace_traced", lambda *given: (ran.append(given[3]), replace(*given))[1])
    maps: list[SourceMap] = []
    counts: list[int] = []
    for forgets in (False, True):
        builder = Builder(
            **bench_st_build.inputs(), regex_scripts=RegexScripts.from_settings({"regex": bench_st_build.SCRIPTS})
        )
        if forgets:
            builder.services.scripts.stretches = ScriptStretches(1)  # every stretch weighs more
        builder.build(message="And then?")
        plan = builder.build(message="And now?")
        ran.clear()
        read_map(plan)
        maps.append(plan.source_map())
        counts.append(len(ran))
    few, all_ = counts
    assert 0 < few < all_ / 10
    known, fresh = maps
    assert [text.to_dict() for text in known.messages] == [text.to_dict() for text in fresh.messages]
