"""Evaluations on the engine of batches: what is written, what is made again, what a budget leaves."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tavernkit.batching import BatchProgress, evaluate
from tavernkit.errors import ConfigError
from tavernkit.models import ScriptedModel
from tavernkit.models.errors import BudgetReachedError
from tavernkit.testing import failure
from tavernkit.vibe_tavern import EvalOptions

CHOSEN = EvalOptions(suites=("tools",), scenarios="chat_only", models="all", trials=3, jobs=2)


def good() -> ScriptedModel:
    return ScriptedModel("Done.", repeat_last=True)


def keys(folder: Path) -> list[str]:
    lines = [line for path in sorted(folder.glob("part-*.jsonl")) for line in path.read_bytes().splitlines()]
    return [json.loads(line)["key"] for line in lines]


def test_every_run_is_written_once_and_is_not_made_again(tmp_path: Path) -> None:
    seen: list[BatchProgress] = []
    first = evaluate(CHOSEN, good(), out=tmp_path, progress=seen.append)
    total = len(first.records)
    assert (total % CHOSEN.trials, seen[-1].done, seen[-1].total) == (0, total, total)
    assert len(set(keys(tmp_path))) == len(keys(tmp_path)) == total
    refused = ScriptedModel(failure(401, "no key"), repeat_last=True)
    again = evaluate(CHOSEN, refused, out=tmp_path, resume=True)
    assert again == first
    assert refused.requests == []
    with pytest.raises(ConfigError, match="--resume"):
        evaluate(CHOSEN, good(), out=tmp_path)


def test_runs_without_an_answer_are_reported_and_made_again(tmp_path: Path) -> None:
    busy = evaluate(CHOSEN, ScriptedModel(failure(503, "busy"), repeat_last=True), out=tmp_path)
    assert {record.error_category for record in busy.records} == {"UPSTREAM_5XX"}
    assert keys(tmp_path) == []
    after = evaluate(CHOSEN, good(), out=tmp_path, resume=True)
    assert all(record.ok for record in after.records)
    assert [record.config for record in after.records] == [record.config for record in busy.records]


def test_a_budget_leaves_runs_for_the_next_time(tmp_path: Path) -> None:
    poor = ScriptedModel("Done.", BudgetReachedError("used up"), repeat_last=True)
    one = EvalOptions(suites=("tools",), scenarios="chat_only", models="all", trials=3, jobs=1)
    report = evaluate(one, poor, out=tmp_path)
    made = len(keys(tmp_path))
    assert len(report.records) == made
    assert report.missing > 0
    rest = evaluate(one, good(), out=tmp_path, resume=True)
    assert (rest.missing, len(rest.records)) == (0, made + report.missing)


def test_other_options_of_requests_are_other_runs(tmp_path: Path) -> None:
    first = evaluate(CHOSEN, good(), out=tmp_path)
    warm = EvalOptions(
        suites=CHOSEN.suites, scenarios="chat_only", models="all", trials=3, llm_options={"temperature": 0.1}
    )
    model = good()
    evaluate(warm, model, out=tmp_path, resume=True)
    assert len(model.requests) >= len(first.records)
    assert len(keys(tmp_path)) == len(first.records)  # the runs of before are in stale.jsonl
    assert len((tmp_path / "stale.jsonl").read_bytes().splitlines()) == len(first.records)


def test_without_a_folder_nothing_is_kept() -> None:
    assert evaluate(CHOSEN, good()).records
