"""Both platforms' engines, seen through the contract only."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

import pytest

from tavernkit._values import is_mapping
from tavernkit.budget import EvictionRecord
from tavernkit.lore import LoreEngine, LoreResult, LoreRow
from tavernkit.prompt import Plan
from tavernkit.report import lore_rows
from tavernkit.risu_ai import _lorebook as risu_ai
from tavernkit.silly_tavern import _world_info as silly_tavern

Scan = Callable[..., LoreResult]


def by_silly_tavern(*texts: str, budget: int = 250) -> LoreResult:
    engine: LoreEngine[silly_tavern.ScanInput, silly_tavern.WorldInfoResult] = silly_tavern.WorldInfoEngine()
    entries = {
        "0": {"uid": 0, "key": ["lamp", "light"], "comment": "The lamp", "content": "It burns oil.", "order": 1},
        "1": {"uid": 1, "key": ["ash"], "comment": "", "content": "Grey.", "order": 1},
        "2": {"uid": 2, "key": ["fen"], "comment": "Fen", "content": "Wet.", "order": 1},
    }
    book = silly_tavern.WorldBook.from_json({"entries": entries}, name="Tidewatch")
    books = silly_tavern.SelectedBooks(global_=(book,))
    given = silly_tavern.ScanInput(messages=texts[::-1], books=books, max_context=budget * 4, count_tokens=len)
    return engine.scan(given)


def by_risu_ai(*texts: str, budget: int = 250) -> LoreResult:
    engine: LoreEngine[risu_ai.ScanInput, risu_ai.LorebookResult] = risu_ai.LorebookEngine()
    entries = [
        risu_ai.LorebookEntry(key="lamp, light", comment="The lamp", content="It burns oil.", book="Tidewatch"),
        risu_ai.LorebookEntry(key="ash", content="Grey.", book="Tidewatch"),
        risu_ai.LorebookEntry(key="fen", comment="Fen", content="Wet.", book="Tidewatch"),
    ]
    messages = [risu_ai.LoreMessage("user", text) for text in texts]
    settings = risu_ai.LorebookSettings(token_budget=budget)
    return engine.scan(risu_ai.ScanInput(entries=entries, messages=messages, count_tokens=len, settings=settings))


ENGINES = pytest.mark.parametrize("scan", [by_silly_tavern, by_risu_ai])


@ENGINES
def test_activated_entries_have_a_title_and_a_book(scan: Scan) -> None:
    result = scan("the lamp and ash")
    assert {(entry.title, entry.book) for entry in result.activated_entries} == {
        ("The lamp", "Tidewatch"),
        ("ash", "Tidewatch"),
    }
    assert result.total_tokens >= len("It burns oil.Grey.")


@ENGINES
def test_rows_tell_of_every_entry_with_those_in_the_prompt_first(scan: Scan) -> None:
    rows = scan("a fen").rows()
    assert [(row.title, row.active) for row in rows] == [("Fen", True), ("The lamp", False), ("ash", False)]
    assert "'fen'" in rows[0].reason
    assert all(row.reason for row in rows)
    assert [tuple(row.keys) for row in rows] == [("fen",), ("lamp", "light"), ("ash",)]
    assert [row.content for row in rows] == ["Wet.", "It burns oil.", "Grey."]
    assert json.loads(json.dumps(rows[1].to_dict()))["book"] == "Tidewatch"


@ENGINES
def test_entries_that_no_text_touched_can_be_limited(scan: Scan) -> None:
    assert [row.title for row in scan("a fen").rows(untouched=1)] == ["Fen", "The lamp"]
    assert [row.title for row in scan("a fen").rows(untouched=0)] == ["Fen"]


@ENGINES
def test_a_report_shows_the_lore_of_a_plan_through_the_contract(scan: Scan) -> None:
    plan = Plan(lore_result=scan("light"))
    assert [row.title for row in lore_rows(plan.lore_result) if row.active] == ["The lamp"]


@ENGINES
def test_what_did_not_fit_the_budget_is_in_a_trim_report(scan: Scan) -> None:
    assert scan("the lamp").trim_report is None
    result = scan("the lamp, ash and fen", budget=14)
    report = result.trim_report
    assert report is not None
    assert {entry.title for entry in result.activated_entries} | {
        lost(record)["title"] for record in report.evictions
    } == {
        "The lamp",
        "ash",
        "Fen",
    }
    assert report.eviction_count == 3 - len(result.activated_entries) > 0
    assert (report.budget_tokens, report.final_tokens, report.over_budget) == (14, result.total_tokens, True)
    assert {(record.reason, record.budget_group) for record in report.evictions} == {("budget_exceeded", "lore")}
    assert all(lost(record)["book"] == "Tidewatch" for record in report.evictions)
    assert report.tokens_saved == sum(record.token_count for record in report.evictions)


def lost(record: EvictionRecord) -> Mapping[str, object]:
    assert is_mapping(record.source)
    return record.source


def test_a_plan_without_lore_has_no_rows() -> None:
    assert lore_rows(Plan().lore_result) == []


def test_an_application_can_bring_a_lore_result_of_its_own() -> None:
    class Nothing:
        activated_entries = ()
        total_tokens = 0
        trim_report = None

        def rows(self, *, untouched: int | None = None) -> list[LoreRow]:
            return [LoreRow("1", "Own", "mine", active=True, reason="always")]

    assert [row.title for row in lore_rows(Plan(lore_result=Nothing()).lore_result)] == ["Own"]
