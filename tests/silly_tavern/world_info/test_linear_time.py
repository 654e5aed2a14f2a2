"""Books that made a scan, or its explanation, take minutes; ten seconds are plenty for each."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tavernkit.silly_tavern._world_info import (
    WorldInfoResult,
    WorldInfoSettings,
    sanitize_filename,
    split_keys,
)
from tavernkit.silly_tavern._world_info.limits import MAX_LEVELS
from tavernkit.silly_tavern._world_info.selection import TokenBudget
from tests.quickness import linear_time
from tests.silly_tavern.world_info.scanning import make_book, scan

MANY = 1500
SETTINGS = WorldInfoSettings(budget=100, match_whole_words=False)

ENTRIES: dict[str, Callable[[int], dict[str, object]]] = {
    "levels of recursion": lambda n: {"key": ["a"], "content": "x", "delayUntilRecursion": n + 1},
    "levels of recursion that are lists": lambda n: {"key": ["a"], "content": "x", "delayUntilRecursion": [n + 1]},
    "a chain": lambda n: {"key": [f"k{n}x"], "content": f"k{n + 1}x"},
    "a chain beside entries that wait": lambda n: (
        {"key": [f"k{n}x"], "content": f"k{n + 2}x"} if n % 2 == 0 else {"key": ["a"], "keysecondary": ["zzz"]}
    ),
    "a chain beside regexes": lambda n: (
        {"key": [f"k{n}x"], "content": f"k{n + 2}x"} if n % 2 == 0 else {"key": [f"/[q]{n}[z]/"]}
    ),
    "depths": lambda n: {"key": ["a"], "content": "x", "position": 4, "depth": n},
    "weights that are text": lambda n: {
        "key": ["a"], "content": "x", "group": "g", "groupWeight": "1" * 40 + ("x" if n == MANY - 1 else "")
    },
    "entries in many groups": lambda n: {
        "key": ["a"],
        "content": "x",
        "group": "",
        **({"group": ",".join(f"g{i}" for i in range(300)), "useGroupScoring": True} if n < 300 else {}),
    },
}  # fmt: skip


@pytest.mark.parametrize("name", ENTRIES)
def test_takes_linear_time(name: str) -> None:
    book = make_book(*(ENTRIES[name](number) for number in range(MANY)))
    with linear_time():
        result = scan(
            book, "a k0x " * 100, settings=SETTINGS, max_context=10**7, count_tokens=len, warn=lambda _message: None
        )
        result.rows()


def timed(*, records: int) -> WorldInfoResult:
    stored: dict[str, object] = {f"gone {n}": {"hash": n, "start": 0, "end": 9} for n in range(records)}
    book = make_book(*({"key": ["a"], "content": "x", "sticky": 5} for _ in range(records)))
    return scan(book, "a", timed_state={"sticky": stored})


CALLS: dict[str, Callable[[], object]] = {
    "records of timed effects that nobody owns": lambda: timed(records=MANY),
    "the same entry forced again and again": lambda: scan(
        make_book(*({"uid": 0, "key": ["a"]} for _ in range(MANY))),
        "a",
        forced=[{"uid": 0, "world": "Lore", "hash": 1}] * MANY,
    ),
    "commas in typed keys": lambda: split_keys("a," * 300_000),
    "dots in a file name": lambda: sanitize_filename(". " * 300_000 + "x"),
}


@pytest.mark.parametrize("name", CALLS)
def test_call_takes_linear_time(name: str) -> None:
    with linear_time():
        CALLS[name]()


def test_the_text_of_earlier_passes_is_not_counted_in_every_pass() -> None:
    counted = 0

    def count(text: str) -> int:
        nonlocal counted
        counted += len(text)
        return len(text) // 4

    budget = TokenBudget(100_000, count)
    for _ in range(1000):
        budget.begin_pass("x" * 100)
        budget.add("y" * 100)
        assert not budget.is_exceeded()
    assert counted < 1_000_000


def test_levels_beyond_the_limit_are_reported() -> None:
    warnings: list[str] = []
    book = make_book(
        *({"key": ["a"], "content": f"{n}", "delayUntilRecursion": n} for n in range(1, MAX_LEVELS + 3)),
        {"constant": True, "content": "b"},
    )
    result = scan(book, "a", settings=SETTINGS, max_context=10**6, warn=warnings.append)
    assert len(result.activated) == MAX_LEVELS + 1
    assert warnings == [f"World Info has {MAX_LEVELS + 2} levels of recursion; only {MAX_LEVELS} are scanned"]


def test_checks_beyond_the_limit_end_the_scan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tavernkit.silly_tavern._world_info.scan.MAX_CHECKS", 4)
    warnings: list[str] = []
    chain = [{"key": [f"k{n}x"], "content": f"k{n + 1}x"} for n in range(9)]
    result = scan(make_book(*chain), "k0x", settings=SETTINGS, max_context=10**6, warn=warnings.append)
    assert [one.content for one in result.activated] == ["k1x", "k2x", "k3x"]
    assert warnings == ["World Info stopped after it had checked entries 4 times"]


def test_regexes_beyond_the_limit_are_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tavernkit.silly_tavern._world_info.matching.MAX_SEARCHED_CHARS", 150)
    warnings: list[str] = []
    entries = [{"key": [f"/[a]{{{n}}}/"], "content": str(n)} for n in (1, 2, 3)]
    result = scan(make_book(*entries), "a" * 60, settings=SETTINGS, warn=warnings.append)
    assert len(result.activated) == 2
    assert len(warnings) == 1
    assert "no more are tried" in warnings[0]
