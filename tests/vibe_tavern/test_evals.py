"""The evaluation harness, against a scripted model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tavernkit.errors import ConfigError
from tavernkit.models import ConnectionFailedError, Endpoint, OpenAIModel, RequestTimeoutError
from tavernkit.testing import Answer, ScriptedModel, answer, calls, failure, serve, tool_call, usage
from tavernkit.vibe_tavern._evals.answer_scenarios import language_shape
from tavernkit.vibe_tavern._evals.harness import EvalOptions, EvalProgress, matrix, run_evals
from tavernkit.vibe_tavern._evals.lab import EvalModel, matches, profiles_for, shipped_models, shipped_profiles
from tavernkit.vibe_tavern._evals.report import (
    EvalReport,
    RunRecord,
    aggregate,
    error_category,
    http_category,
    percentile,
    wilson_interval,
)
from tavernkit.vibe_tavern._evals.tool_scenarios import CLOSING, Workspace
from tavernkit.vibe_tavern._token_estimation import calibrate
from tavernkit.vibe_tavern.errors import ToolArgumentError
from tests.vibe_tavern.support import loose

MODEL = EvalModel("vendor/good-model", tags=("stable",))
PATCH = {"ops": [{"op": "set", "path": "/draft/foo", "value": "bar"}]}


class Ticks:
    """A clock that goes ten milliseconds further each time it is read."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 0.01
        return self.now


def options(**fields: Any) -> EvalOptions:
    return EvalOptions(**{"catalogue": [MODEL], "empty_response_retry_count": 0, **fields})


def directive(kind: str, payload: dict[str, Any]) -> str:
    return json.dumps({"assistant_text": "ok", "directives": [{"type": kind, "payload": payload}]})


def good_model(request: Any) -> Answer | str:
    """Do what every scenario asks for."""
    messages = request["messages"]
    prompt = next(message["content"] for message in messages if message["role"] == "user")
    done = [message for message in messages if message["role"] == "tool"]
    answers = {
        "form_id": directive("show_form", {"form_id": "character_form"}),
        "toast": directive("ui.toast", {"message": "Saved."}),
        "with a patch": directive("ui.patch", {"ops": [{"op": "add", "path": "foo", "value": "bar"}]}),
        "upload": directive("upload", {"purpose": "character_portrait"}),
        "hello": "Hello!",
        "how to start": "运行 `npm run build`,{{char}},见 https://example.com/docs。",
        "computer": "需要软件和网络。",
        "traveller": '你好。<lang code="fr">Merci</lang>',
    }
    for part, text in answers.items():
        if part in prompt:
            return text
    if "number 1" in prompt and not done:
        return calls(tool_call("state_get", {"workspace_id": 1}))
    if "600" in prompt and not done:
        long = {"ops": [{"op": "set", "path": "/draft/foo", "value": "x" * 600}]}
        return calls(tool_call("state_patch", long))
    if "withheld" in prompt:
        return calls(tool_call("state_get")) if not done else CLOSING
    if "secret" in prompt:
        bad = {"ops": [{"op": "set", "path": "/draft/secret", "value": "baz"}]}
        if not done:
            return calls(tool_call("state_patch", PATCH, id="a"), tool_call("state_patch", bad, id="b"))
        return calls(tool_call("state_get", id="c")) if len(done) == 2 else CLOSING
    if "single answer" in prompt:
        both = calls(tool_call("state_get", id="a"), tool_call("state_patch", PATCH, id="b"))
        return both if not done else CLOSING
    steps = [json.loads(message["content"]) for message in done]
    if not any(step["ok"] and step["tool_name"] == "state_get" for step in steps) and "600" not in prompt:
        return calls(tool_call("state_get", {"workspace_id": "ws_1"}), usage=usage(10, 1))
    if not any(step["ok"] and step["tool_name"] == "state_patch" for step in steps):
        return calls(tool_call("state_patch", PATCH), usage=usage(20, 2))
    return answer(CLOSING, usage=usage(30, 3))


async def evaluate(model: ScriptedModel, **fields: Any) -> EvalReport:
    return await run_evals(options(**fields), model, clock=Ticks())


async def test_a_model_that_does_everything_right_passes_every_scenario() -> None:
    everything = {"suites": ("tools", "directives", "language"), "scenarios": "all", "strategies": "all"}
    report = await evaluate(ScriptedModel(good_model, repeat_last=True), **everything)
    assert [(record.name, record.error) for record in report.records if not record.ok] == []
    assert len(report.records) == (8 + 4 + 3 * 2) * 3
    overall = loose(report.summary())["overall"]
    assert (overall["ok_rate"], overall["errors"]) == (1.0, {})
    assert overall["modes"]["json_schema"] == 12
    assert loose(report.summary())["scenarios"]["happy_path"]["total_tokens"] == 3 * (11 + 22 + 33)


async def test_runs_are_the_same_every_time_whatever_the_jobs() -> None:
    first = await evaluate(ScriptedModel(good_model, repeat_last=True), scenarios="all", trials=2)
    second = await evaluate(ScriptedModel(good_model, repeat_last=True), scenarios="all", trials=2, jobs=5)
    assert [record.config for record in first.records] == [record.config for record in second.records]
    assert [record.ok for record in first.records] == [record.ok for record in second.records]


async def test_progress_is_told_run_by_run() -> None:
    told: list[EvalProgress] = []
    model = ScriptedModel(good_model, repeat_last=True)
    await run_evals(options(suites=["directives"]), model, progress=told.append)
    assert [(progress.done, progress.total) for progress in told] == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert told[0].record.config["scenario"] == "show_form"


@pytest.mark.parametrize(
    ("script", "category"),
    [
        (["I will not."], "NO_TOOL_CALLS"),
        ([calls(tool_call("state_get")), calls(tool_call("state_patch", PATCH)), "Nope."], "ASSERTION_FAILED"),
        ([calls(tool_call("state_get", {"workspace_id": 5})), CLOSING], "TOOL_ERROR"),
        ([failure(429, "slow down")], "RATE_LIMIT"),
        ([failure(404, "No endpoints found that support tool use")], "NO_TOOL_USE_ENDPOINT"),
        ([RequestTimeoutError("slow")], "TIMEOUT_ERROR"),
        ([ConnectionFailedError("gone")], "CONNECTION_ERROR"),
        ([RuntimeError("odd")], "EXCEPTION"),
        ([calls(tool_call("state_get")), "", ""], "EMPTY_ASSISTANT_TEXT"),
    ],
)
async def test_failures_have_a_category(script: list[Any], category: str) -> None:
    report = await evaluate(ScriptedModel(*script), suites=["tools"], scenarios="happy_path")
    (record,) = report.records
    assert (record.ok, record.error_category) == (False, category)


async def test_network_faults_and_empty_answers_are_tried_again() -> None:
    model = ScriptedModel(ConnectionFailedError("gone"), "Hello!")
    report = await evaluate(model, suites=["tools"], scenarios="chat_only", empty_response_retry_count=1)
    assert report.records[0].ok


async def test_drift_into_another_language_is_noticed() -> None:
    report = await evaluate(
        ScriptedModel("안녕하세요", repeat_last=True), suites=["tools"], scenarios="chat_only", languages=["ja-JP"]
    )
    (record,) = report.records
    assert (record.error_category, record.language_shape) == ("LANGUAGE_DRIFT", "drift")


async def test_over_a_real_connection_with_a_transport_for_each_model(tmp_path: Path) -> None:
    async with serve(ScriptedModel(good_model, repeat_last=True)) as server:
        made: list[str] = []

        def transport(model: EvalModel) -> OpenAIModel:
            made.append(model.id)
            return OpenAIModel("", Endpoint(base_url=server.url))

        report = await run_evals(options(jobs=3), transport)
    assert made == [MODEL.id]
    assert all(record.ok for record in report.records)
    report.write(tmp_path)
    assert len(list((tmp_path / "runs").glob("*.json"))) == len(report.records)
    again = EvalReport.read(tmp_path)
    assert again.summary() == report.summary()
    assert json.loads((tmp_path / "summary.json").read_text())["overall"]["ok_rate"] == 1.0
    assert "| vendor/good-model |" in (tmp_path / "report.md").read_text()


def test_an_answer_cut_inside_a_character_is_saved(tmp_path: Path) -> None:
    record = RunRecord(
        config={"model": "m"}, ok=False, elapsed_ms=1, error="cut \ud83d", error_category="X", text="\\n \ud83d"
    )
    EvalReport((record,)).write(tmp_path)
    assert EvalReport.read(tmp_path).records == (record,)
    assert "cut \\ud83d" in (tmp_path / "report.md").read_text(encoding="utf-8")


def test_unreadable_run_files_are_named(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "1.json").write_text("{broken")
    (tmp_path / "runs" / "2.json").write_text("[]")
    told: list[str] = []
    assert EvalReport.read(tmp_path, warn=told.append).records == ()
    assert len(told) == 2


def test_matrix_follows_the_filters() -> None:
    cells = list(
        matrix(EvalOptions(models="deepseek", strategies="raw,production", scenarios="happy_path", suites=["tools"]))
    )
    assert [(cell.model.id, cell.strategy, cell.profile.id) for cell in cells] == [
        ("deepseek/deepseek-v3.2:nitro", "raw", "default"),
        ("deepseek/deepseek-v3.2:nitro", "production", "deepseek_v3_2_local_recommended"),
        ("deepseek/deepseek-chat-v3-0324:nitro", "raw", "default"),
        ("deepseek/deepseek-chat-v3-0324:nitro", "production", "deepseek_chat_t0_8"),
    ]
    everything = list(matrix(EvalOptions.full(trials=1)))
    assert len({cell.model.id for cell in everything}) == 17
    assert {cell.scenario.suite for cell in everything} == {"tools", "directives", "language"}


async def test_an_empty_matrix_is_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        await run_evals(options(models="nobody"), ScriptedModel())
    assert caught.value.code == "EMPTY_EVAL_MATRIX"
    with pytest.raises(ConfigError):
        options(trials=0)


@pytest.mark.parametrize(
    ("wanted", "fits"),
    [
        (None, True),
        ("", True),
        ("all", True),
        ("stable", True),
        ("vendor/*", True),
        ("other", False),
        ("all,!stable", False),
        ("!other", True),
        (["vendor/model"], True),
    ],
)
def test_filters(wanted: Any, fits: bool) -> None:
    assert matches(EvalModel("vendor/model:nitro", tags=("stable",)).labels(), wanted) is fits


def test_catalogue_is_complete_and_profiles_fit_their_models() -> None:
    assert len(shipped_models()) == 17
    assert sum("stable" in model.tags for model in shipped_models()) == 6
    assert len(shipped_profiles()) == 16
    for profile in shipped_profiles():
        assert any(profile.applies_to(model) for model in shipped_models()), profile.id
    assert [each.id for each in profiles_for(EvalModel("x/y"), shipped_profiles(), "recommended")] == ["default"]


@pytest.mark.parametrize(
    ("text", "language", "shape"),
    [
        ("こんにちは", "ja-JP", "ok"),
        ("漢字", "ja", "unknown"),
        ("안녕", "ja-JP", "drift"),
        ("你好", "zh-CN", "ok"),
        ("你好 です", "zh_TW", "drift"),
        ("안녕", "ko", "ok"),
        ("ありがとう", "ko-KR", "drift"),
        ("hello there", "en-US", "ok"),
        ("123", "en", "unknown"),
        ("bonjour", "fr", "unknown"),
        ("你好 `です` <lang code='ja'>です</lang>", "zh-CN", "ok"),
    ],
)
def test_language_is_guessed_from_the_scripts(text: str, language: str, shape: str) -> None:
    assert language_shape(text, language) == shape


def test_latin_words_may_count_as_drift() -> None:
    assert language_shape("你好 one two three", "zh-CN") == "ok"
    assert language_shape("你好 one two three", "zh-CN", strict_latin=True) == "drift"


def test_numbers_of_a_report() -> None:
    assert percentile([5, 1, 3], 0.5) == 3
    assert percentile([5, 1, 3], 0.95) == 5
    assert percentile([], 0.5) is None
    low, high = wilson_interval(8, 10)
    assert 0.49 < low < 0.5
    assert 0.94 < high < 0.95
    assert wilson_interval(0, 0) == (0.0, 1.0)
    failed = RunRecord(config={"model": "m"}, ok=False, elapsed_ms=10, error="e", error_category="X")
    numbers = loose(aggregate([failed, RunRecord(config={}, ok=True, elapsed_ms=30)]))
    assert (numbers["ok_rate"], numbers["ms_p95"], numbers["errors"]) == (0.5, 30, {"X": 1})
    report = EvalReport([failed])
    assert "| X | 1 |" in report.to_markdown()
    assert json.loads(report.to_json())["runs"][0]["error"] == "e"


def test_categories_of_statuses() -> None:
    assert http_category(503, "") == "UPSTREAM_5XX"
    assert http_category(418, "") == "HTTP_418"
    assert error_category(ValueError()) == "EXCEPTION"


def test_workspace_patches_are_all_or_nothing() -> None:
    workspace = Workspace()
    ops = [*PATCH["ops"], {"op": "set", "path": "/draft/nope", "value": 1}]
    with pytest.raises(ToolArgumentError):
        workspace.execute("state_patch", loose({"ops": ops}))
    assert workspace.draft == {"foo": ""}
    for wrong in ({"ops": []}, {"ops": ["x"]}, {"workspace_id": "other"}, {}):
        with pytest.raises(ToolArgumentError):
            workspace.execute("state_patch", loose(wrong))
    with pytest.raises(ToolArgumentError):
        workspace.execute("facts_commit", {})


async def test_estimates_are_compared_with_what_providers_count() -> None:
    model = ScriptedModel(answer("x", usage=usage(60, 1)), "no usage", failure(500, "boom"))
    first, second, third = await calibrate([model, model, model])
    assert first.difference == 60 - first.estimated
    assert first.ratio == 60 / first.estimated
    assert second.problem == "the provider reports no usage"
    assert third.difference is None
    assert third.problem is not None
    assert "boom" in third.problem
