from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import MappingProxyType

import pytest

from tavernkit.errors import LoreParseError, StrictModeError, WarningLog
from tavernkit.lore import LoreEngine, LoreResult
from tavernkit.silly_tavern._world_info import (
    PassType,
    ScanInput,
    SelectedBooks,
    WorldBook,
    WorldInfoEngine,
    WorldInfoResult,
    WorldInfoSettings,
    forced_entry,
    vectorized_entries,
)
from tests.silly_tavern.world_info.scanning import count_words, make_book, scan

CAT = {"key": ["cat"], "content": "Cats purr."}


def test_engine_and_result_fit_the_contracts() -> None:
    engine: LoreEngine[ScanInput, WorldInfoResult] = WorldInfoEngine()
    result: LoreResult = engine.scan(
        ScanInput(
            messages=["cat"],
            books=SelectedBooks(global_=(make_book(CAT),)),
            max_context=100,
            count_tokens=count_words,
        )
    )
    assert [str(entry) for entry in result.activated_entries] == ["Entry('Lore.0', '')"]
    assert result.total_tokens == 2


def test_everything_has_its_place() -> None:
    book = make_book(*({"constant": True, "content": f"c{position}", "position": position} for position in range(8)))
    warnings: list[str] = []
    result = scan(book, "x", warn=warnings.append)
    assert (result.before, result.after) == ("c0", "c1")
    assert (result.an_top, result.an_bottom) == (("c2",), ("c3",))
    (group,) = result.depth_groups
    assert (group.depth, group.role, group.text) == (4, 0, "c4")
    assert [(one.before, one.content) for one in result.examples] == [(False, "c6"), (True, "c5")]
    assert dict(result.outlets) == {}
    assert len(warnings) == 1
    assert "Lore.7" in warnings[0]


def test_outlet_text_is_joined_highest_order_first() -> None:
    outlet = {"constant": True, "position": 7, "outletName": "city"}
    book = make_book({**outlet, "content": "low", "order": 1}, {**outlet, "content": "high", "order": 2})
    assert dict(scan(book, "x").outlets) == {"city": "high\nlow"}


def test_compiled_books_are_reused_and_books_are_told_apart() -> None:
    engine = WorldInfoEngine()
    settings = WorldInfoSettings()
    first, second = SelectedBooks((make_book(CAT),)), SelectedBooks((make_book(CAT),))
    assert engine.compile(first, settings) is engine.compile(first, settings)
    assert engine.compile(first, settings) is engine.compile(SelectedBooks(first.global_), settings)
    assert engine.compile(first, settings) is not engine.compile(second, settings)


def test_global_settings_can_change_between_scans_of_the_same_books() -> None:
    engine = WorldInfoEngine()
    books = SelectedBooks((make_book({**CAT, "content": "x"}),))

    def activated(message: str, *, case: bool, whole: bool) -> int:
        settings = WorldInfoSettings(case_sensitive=case, match_whole_words=whole)
        given = ScanInput(messages=[message], books=books, max_context=99, count_tokens=count_words, settings=settings)
        return len(engine.scan(given).activated)

    assert activated("CATS", case=False, whole=False) == 1
    assert activated("CATS", case=False, whole=True) == 0
    assert activated("CATS", case=True, whole=False) == 0
    assert activated("CATS", case=False, whole=False) == 1


def test_timed_state_is_plain_and_the_given_one_is_left_alone() -> None:
    book = make_book({**CAT, "sticky": 2})
    stored = MappingProxyType({"sticky": MappingProxyType({"Lore.9": 5}), "cooldown": None})
    result = scan(book, "cat", timed_state=stored)
    assert set(result.timed_state["sticky"]) == {"Lore.0"}
    assert dict(stored["sticky"] or {}) == {"Lore.9": 5}


def test_scans_in_threads_share_one_engine() -> None:
    engine = WorldInfoEngine()
    book = make_book(*({"key": [f"key{number}"], "content": f"c{number}"} for number in range(50)))
    books = SelectedBooks((book,))

    def run(number: int) -> str:
        given = ScanInput(
            messages=[f"say key{number}"], books=books, max_context=1000, count_tokens=count_words, dry_run=True
        )
        return engine.scan(given).before

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(run, range(50))) == [f"c{number}" for number in range(50)]


def test_macros_in_keys_are_expanded_for_every_scan() -> None:
    book = make_book({"key": ["{{char}}"], "content": "It is {{char}}."})

    def named(name: str) -> Callable[[str], str]:
        return lambda text: text.replace("{{char}}", name)

    assert scan(book, "hello Ann", expand=named("Ann")).before == "It is Ann."
    assert scan(book, "hello Ann", expand=named("Bo")).before == ""


def test_only_texts_that_may_hold_macros_are_substituted() -> None:
    seen: list[str] = []

    def substitute(text: str) -> str:
        seen.append(text)
        return text

    book = make_book({"key": ["cat", "<USER>", "\\}", "{{x}}"], "keysecondary": ["dog"]}, {"key": ["cat"]})
    scan(book, "nothing", expand=substitute)
    assert seen == ["<USER>", "\\}", "{{x}}"]


def test_random_numbers_are_the_same_each_time_when_none_are_given() -> None:
    book = make_book(*({"constant": True, "content": str(n), "probability": 50} for n in range(20)))
    assert 0 < len(scan(book, "x").activated) < 20
    assert scan(book, "x").before == scan(book, "x").before


def test_forced_objects_without_identity_are_reported() -> None:
    warnings: list[str] = []
    deep: list[object] = []
    for _ in range(300):
        deep = [deep]
    given = [{"uid": 0}, "nonsense", {"world": "Lore", "uid": 0, "x": deep}, {"world": "Lore", "uid": 0, "content": 5}]
    stored = {"sticky": {"Lore.0": {"hash": deep}}, "cooldown": deep}
    result = scan(make_book(CAT), "x", forced=given, timed_state=stored, warn=warnings.append)
    assert len(warnings) == 4
    assert result.timed_state == {"sticky": {}, "cooldown": {}}


def test_vector_hits_are_handed_in_as_forced_entries() -> None:
    book = make_book(
        {"key": ["zzz"], "content": "@@other\nfound", "vectorized": True, "sticky": 2},
        {"content": "plain"},
        {"content": "off", "vectorized": True, "disable": True},
        {"content": "", "vectorized": True},
    )
    (entry,) = vectorized_entries([book])
    assert len(vectorized_entries([book], every=True)) == 2
    result = scan(book, "x", forced=[forced_entry(entry)])
    assert result.before == "found"
    again = scan(book, "y", "x", timed_state=result.timed_state)
    assert again.before == "found"


def test_scan_without_entries_still_cleans_the_timed_state() -> None:
    stored = {"sticky": {"Old.1": {"hash": 1, "start": 0, "end": 1, "protected": False}}}
    result = scan(make_book(), "a", "b", timed_state=stored)
    assert result.passes == ()
    assert result.budget is None
    assert result.timed_state == {"sticky": {}, "cooldown": {}}


def test_strict_warnings_stop_the_scan() -> None:
    book = WorldBook("Lore", {"entries": {"0": 5}})
    with pytest.raises(StrictModeError, match="entry '0'") as raised:
        scan(book, "x", warn=WarningLog(strict=True))
    assert isinstance(raised.value, LoreParseError)


def test_pass_limit_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tavernkit.silly_tavern._world_info.scan.MAX_PASSES", 3)
    warnings: list[str] = []
    settings = WorldInfoSettings(depth=1, min_activations=1)
    result = scan(make_book({"key": ["zzz"]}), *"abcdefgh", settings=settings, warn=warnings.append)
    assert [one.type for one in result.passes] == [PassType.INITIAL, *[PassType.MIN_ACTIVATIONS] * 2]
    assert warnings == ["World Info stopped after 3 passes"]


def test_a_regex_that_takes_too_long_is_reported_once_and_counts_as_not_found() -> None:
    book = make_book(
        {"key": ["/(a+)+$/"], "content": "slow"},
        {"constant": True, "content": "b", "order": 1},
        {"key": ["b"], "content": "c"},
    )
    warnings: list[str] = []
    result = scan(book, "a" * 40 + "!", warn=warnings.append)
    assert [one.content for one in result.activated] == ["b", "c"]
    assert len(warnings) == 1
    assert "(a+)+$" in warnings[0]


def test_after_too_many_slow_regexes_no_more_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tavernkit.silly_tavern._world_info.matching.MAX_REGEX_TIMEOUTS", 2)
    slow = [{"key": [f"/(a+)+{letter}?$/"], "content": letter} for letter in "bcde"]
    warnings: list[str] = []
    result = scan(make_book(*slow, {"key": ["/a!/"], "content": "quick"}), "a" * 40 + "!", warn=warnings.append)
    assert result.activated == ()
    assert len(warnings) == 3
    assert "no more are tried" in warnings[-1]


def test_entries_of_any_shape_never_stop_a_scan() -> None:
    odd: list[object] = [None, True, -1, 1.5, "x", "", [], [1], {}, {"a": 1}]
    fields = [name for name in make_book({}).entries[0].raw if name not in {"key", "keysecondary", "content"}]
    entries = [{**CAT, name: value, "uid": at} for name in fields for at, value in enumerate(odd)]
    result = scan(make_book(*entries), "cat", warn=lambda message: None)
    assert len(list(result.explanations)) == len(entries)
    assert result.table(everything=True)
