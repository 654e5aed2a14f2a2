"""Replies: who is asked, how often, how quickly, in what order, and what is kept."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from concurrent.futures import Future
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import tavernkit as tk
from tavernkit.batching import GenerateOptions
from tavernkit.batching import _generation as generation
from tavernkit.batching._executors import Built
from tavernkit.batching._generation import Meter, _take
from tavernkit.errors import ConfigError
from tavernkit.models import Request
from tavernkit.testing import ScriptedModel, answer, failure, serve, serve_in_thread, usage
from tests.batching.grids import by_key, records, write_grid
from tests.cli.terminal import Tavernkit


def options(url: str, **fields: Any) -> GenerateOptions:
    return GenerateOptions(model="openai:test", base_url=url, **{"retries": 0, **fields})


@pytest.mark.parametrize("own", [None, "its own"])
async def test_another_server_does_not_get_the_providers_key(own: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "the provider's")
    if own is not None:
        monkeypatch.setenv("TAVERNKIT_API_KEY", own)
    async with serve(ScriptedModel("Aye.")) as server:
        model = options(server.url).connect()
        await model.send(Request(messages=[{"role": "user", "content": "Hi"}]))
        await model.aclose()
        assert server.requests[0].headers.get("authorization") == (own and f"Bearer {own}")


def test_records_have_the_reply_and_what_it_cost(tmp_path: Path) -> None:
    model = ScriptedModel(answer("I am Aria.", usage=usage(100, 5)), repeat_last=True)
    with serve_in_thread(model) as url:
        asked = options(url, options={"temperature": 0.25})
        result = tk.batch(write_grid(tmp_path, cards=1, seeds=1), tmp_path / "out", generate=asked)
    assert (result.status, result.made, result.unanswered) == ("complete", 3, 0)
    assert [body["temperature"] for body in model.requests] == [0.25] * 3
    for record in records(tmp_path / "out"):
        assert record["reply"] == {"role": "assistant", "content": "I am Aria."}
        assert record["usage"]["total_tokens"] == 105
        assert record["finish_reason"] == "stop"
        assert record["model"] == "openai:test"
        assert record["latency_ms"] > 0
        assert record["messages"] in [body["messages"] for body in model.requests]


def test_another_model_makes_other_records(tmp_path: Path) -> None:
    grid = write_grid(tmp_path, cards=1, seeds=1)
    tk.batch(grid, tmp_path / "a", generate=GenerateOptions(model="scripted"))
    tk.batch(grid, tmp_path / "b", generate=GenerateOptions(model="scripted", options={"temperature": 1}))
    tk.batch(grid, tmp_path / "c", jobs=1)
    keys = [set(by_key(tmp_path / name)) for name in "abc"]
    assert not keys[0] & keys[1] | keys[0] & keys[2]


def test_conversations_for_training_end_with_the_reply(tmp_path: Path) -> None:
    tk.batch(
        write_grid(tmp_path, cards=1, seeds=1),
        tmp_path / "out",
        format="chat",
        generate=GenerateOptions(model="scripted"),
    )
    for row in records(tmp_path / "out"):
        assert row["messages"][-1] == {"role": "assistant", "content": "A reply."}
        assert row["messages"][-2]["role"] == "user"


def test_what_the_model_did_not_answer_is_asked_again_by_the_next_run(tmp_path: Path) -> None:
    grid = write_grid(tmp_path, cards=1, seeds=1)
    with serve_in_thread(ScriptedModel("One.", failure(503), failure(429), "Two.", "Three.")) as url:
        first = tk.batch(grid, tmp_path / "out", generate=options(url, concurrency=1))
        assert (first.status, first.made, first.unanswered) == ("failed", 1, 2)
        assert "HTTPError" in first.problem
        second = tk.batch(grid, tmp_path / "out", generate=options(url, concurrency=1), resume=True)
    assert (second.status, second.made, second.skipped) == ("complete", 2, 1)
    assert sorted(record["reply"]["content"] for record in records(tmp_path / "out")) == ["One.", "Three.", "Two."]


def test_a_prompt_that_is_refused_is_a_record_that_says_so(tmp_path: Path) -> None:
    with serve_in_thread(ScriptedModel(failure(400, "too long"), "Two.", "Three.")) as url:
        result = tk.batch(
            write_grid(tmp_path, cards=1, seeds=1), tmp_path / "out", generate=options(url, concurrency=1)
        )
    assert (result.status, result.made, result.failed) == ("complete", 3, 1)
    (refused,) = (record for record in records(tmp_path / "out") if record["error"])
    assert refused["error"]["type"] == "HTTPError"
    assert refused["reply"] is None
    assert refused["messages"]


def test_failures_are_tried_again_within_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []

    def without_waiting(model: tk.Model, *, retries: int) -> tk.Model:
        async def sleep(seconds: float) -> None:
            waits.append(seconds)

        return tk.with_retries(model, retries=retries, sleep=sleep)

    monkeypatch.setattr(generation, "with_retries", without_waiting)
    with serve_in_thread(ScriptedModel(failure(503), failure(503), "One.", "Two.", "Three.")) as url:
        asked = options(url, retries=5, concurrency=1)
        result = tk.batch(write_grid(tmp_path, cards=1, seeds=1), tmp_path / "out", generate=asked)
    assert (result.made, result.unanswered) == (3, 0)
    assert len(waits) == 2
    assert waits[1] > waits[0] / 2


def test_a_model_that_is_not_there_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tavernkit.batching._engine.MAX_UNANSWERED", 4)
    model = ScriptedModel(failure(401), repeat_last=True)
    with serve_in_thread(model) as url:
        asked = options(url, concurrency=1)
        result = tk.batch(write_grid(tmp_path, cards=2, seeds=20), tmp_path / "out", generate=asked)
    assert (result.status, result.made) == ("failed", 0)
    assert len(model.requests) < 30


@pytest.mark.parametrize(("limits", "made"), [({"max_requests": 5}, 5), ({"max_tokens": 2100}, 2)])
def test_a_budget_ends_the_run_and_the_next_goes_on(tmp_path: Path, limits: dict[str, int], made: int) -> None:
    grid = write_grid(tmp_path, cards=1, seeds=3)
    model = ScriptedModel(answer("Yes.", usage=usage(1000, 10)), repeat_last=True)
    with serve_in_thread(model) as url:
        result = tk.batch(grid, tmp_path / "out", generate=options(url, concurrency=1, **limits))
        assert (result.status, result.made, result.unanswered) == ("budget", made, 0)
        assert len(model.requests) == made
        rest = tk.batch(grid, tmp_path / "out", generate=options(url), resume=True)
    assert (rest.status, rest.made, rest.skipped) == ("complete", 9 - made, made)


def test_prompts_with_the_same_beginning_are_sent_together(tmp_path: Path) -> None:
    model = ScriptedModel("Yes.", repeat_last=True)
    with serve_in_thread(model) as url:
        tk.batch(write_grid(tmp_path, cards=4, seeds=2), tmp_path / "out", generate=options(url, concurrency=1))
    first = [json.dumps(body["messages"])[:400] for body in model.requests]
    changes = sum(before != after for before, after in pairwise(first))
    assert len(first) == 24
    assert changes == 3


def test_a_meter_spaces_requests_and_counts_budgets() -> None:
    now = 100.0
    meter = Meter(
        GenerateOptions(model="scripted", requests_per_second=4, max_requests=5, max_tokens=100), clock=lambda: now
    )
    assert [meter.take() for _ in range(3)] == [0.0, 0.25, 0.5]
    now = 110.0
    assert meter.take() == 0.0
    meter.spend(100)
    assert meter.take() is None
    meter.spend(-50)
    assert meter.take() == 0.25
    assert meter.take() is None


def test_after_kill_9_no_reply_is_paid_for_twice(tmp_path: Path) -> None:
    grid, out = write_grid(tmp_path, cards=1, seeds=8), tmp_path / "out"
    model = ScriptedModel("Yes.", repeat_last=True)
    code = (
        "import sys, tavernkit as tk; from tavernkit.batching import GenerateOptions\n"
        "grid, out, url = sys.argv[1:]\n"
        "asked = GenerateOptions(model='openai:test', base_url=url, concurrency=2)\n"
        "tk.batch(grid, out, resume=True, generate=asked, progress=lambda now: print(now.done, flush=True))"
    )
    with serve_in_thread(model) as url:
        run = subprocess.Popen([sys.executable, "-c", code, str(grid), str(out), url], stdout=subprocess.PIPE)
        assert run.stdout is not None
        for line in run.stdout:
            if int(line) >= 5:
                break
        os.kill(run.pid, signal.SIGKILL)
        run.wait()
        run.stdout.close()
        sent = len(model.requests)
        last = tk.batch(grid, out, resume=True, generate=options(url, concurrency=2))
    assert last.records == 24
    assert last.skipped >= 5
    assert len(by_key(out)) == 24
    assert len(model.requests) - sent == last.made <= 19


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "--model provider:name"),
        ({"model": "openai:x", "concurency": 1}, "did you mean 'concurrency'"),
        ({"model": "openai:x", "concurrency": 0}, "more than 0"),
        ({"model": 5}, "a text"),
        ({"model": "openai:x", "max_tokens": -1}, "a whole number"),
    ],
)
def test_wrong_options_are_refused(given: dict[str, object], message: str) -> None:
    with pytest.raises(tk.ConfigError, match=message):
        GenerateOptions.read(given)


def test_the_command_takes_who_answers_from_the_grid_or_the_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tavernkit = Tavernkit(capsys)
    model = ScriptedModel("Yes.", repeat_last=True)
    with serve_in_thread(model) as url:
        text = f'[generate]\nmodel = "openai:from-grid"\nbase_url = "{url}"\noptions = {{ max_tokens = 7 }}\n'
        grid = str(write_grid(tmp_path, cards=1, seeds=1, text=text))
        made = tavernkit("batch", grid, "--out", str(tmp_path / "a"), "--generate", "--max-requests", "2")
        assert made.code == 0
        assert json.loads(made.out)["status"] == "budget"
        made = tavernkit("batch", grid, "--out", str(tmp_path / "b"), "--generate", "--model", "openai:from-line")
        assert json.loads(made.out)["made"] == 3
    assert [body["model"] for body in model.requests] == ["from-grid"] * 2 + ["from-line"] * 3
    assert [body["max_tokens"] for body in model.requests] == [7] * 5


def test_the_command_says_when_the_model_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with serve_in_thread(ScriptedModel(failure(500), repeat_last=True)) as url:
        grid, out = str(write_grid(tmp_path, cards=1, seeds=1)), str(tmp_path / "out")
        made = Tavernkit(capsys)(
            "batch", grid, "--out", out, "--generate", "--model", "openai:x", "--base-url", url, "--retries", "0"
        )
    assert made.code == 4
    assert "3 requests without a reply" in made.err


def test_text_completion_goes_to_text_models(tmp_path: Path) -> None:
    model = ScriptedModel("Yes.", repeat_last=True)
    grid = write_grid(tmp_path, cards=1, seeds=1, text='[defaults]\ndialect = "text"\n')
    with serve_in_thread(model) as url:
        asked = GenerateOptions(model="text:local", base_url=url, retries=0)
        result = tk.batch(grid, tmp_path / "out", generate=asked)
    assert result.made == 3
    assert all(record["prompt"] in [body["prompt"] for body in model.requests] for record in records(tmp_path / "out"))


def test_replies_that_arrive_with_an_error_are_returned_first() -> None:
    replies = [Built(None, None, line) for line in (b"one", b"two")]
    pending: set[Future[Built]] = {Future() for _ in range(3)}
    failing, *others = pending
    failing.set_exception(ConfigError("no"))
    for future, reply in zip(others, replies, strict=True):
        future.set_result(reply)
    assert {built.line for built in _take(pending, wait_for_one=True)} == {b"one", b"two"}
    with pytest.raises(ConfigError):
        _take(pending, wait_for_one=True)
