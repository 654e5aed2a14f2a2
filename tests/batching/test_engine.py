"""Runs: what they write, that they go on where they were, and that nothing is lost or made twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import tavernkit as tk
from tavernkit.batching import BatchProgress
from tavernkit.batching import _executors as executors
from tavernkit.batching._executors import Job, processes
from tavernkit.batching._grid import Selection
from tavernkit.examples import example_path
from tests.batching.grids import by_key, copy_example, records, write_card, write_grid
from tests.cli.terminal import heed_interrupts

RUN = """
import sys
import tavernkit as tk
grid, out, jobs, form = sys.argv[1:]
def told(now):
    print(now.done, flush=True)
tk.batch(grid, out, jobs=int(jobs), resume=True, format=form, records_per_part=7, progress=told)
"""


@pytest.mark.parametrize("dialect", ["openai", "text"])
def test_greetings_see_the_time_and_the_seed_of_the_grid(dialect: str, tmp_path: Path) -> None:
    data = {"name": "Aria", "first_mes": "It is {{isotime}}, {{user}}: {{roll:1d1000000}}."}
    card = {"spec": "chara_card_v2", "spec_version": "2.0", "data": data}
    (tmp_path / "card.json").write_text(json.dumps(card), encoding="utf-8")
    defaults = {"now": "2026-02-03T04:05:00Z", "dialect": dialect}
    grid = {"cards": "card.json", "seeds": [1, 2], "defaults": defaults}
    prompts = [
        [each.prompt or str(each.messages) for each in tk.iter_batch(tk.Grid(grid, folder=tmp_path))] for _ in "ab"
    ]
    assert prompts[0] == prompts[1]
    assert all("It is 04:05, User: " in each for each in prompts[0])
    assert prompts[0][0] != prompts[0][1]


def test_half_characters_are_in_records_and_the_manifest(tmp_path: Path) -> None:
    copy_example(tmp_path, "aria.json")
    tk.batch(tk.Grid({"cards": "aria.json", "messages": ["a\ud83d"]}, folder=tmp_path), tmp_path / "out", jobs=1)
    (record,) = records(tmp_path / "out")
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_bytes())
    assert record["inputs"]["message"] == manifest["grid"]["messages"][0] == "a\ud83d"


def test_records_say_what_went_in_and_what_came_out(tmp_path: Path) -> None:
    copy_example(tmp_path, "aria.json", "preset.json", "tidewatch.json", "chat.jsonl")
    grid = tk.Grid(
        {
            "cards": "aria.json",
            "presets": "preset.json",
            "books": ["tidewatch.json"],
            "chats": ["chat.jsonl"],
            "personas": [{"name": "Ann", "description": "A sailor."}],
            "messages": ["Who are you?"],
            "seeds": [7],
        },
        folder=tmp_path,
    )
    result = tk.batch(grid, tmp_path / "out", jobs=1)
    assert (result.status, result.records, result.made, result.failed) == ("complete", 1, 1, 0)
    (record,) = records(tmp_path / "out")
    assert record["inputs"] == {
        "platform": "silly_tavern",
        "card": "aria.json",
        "preset": "preset.json",
        "books": ["tidewatch.json"],
        "persona": {"name": "Ann", "description": "A sailor."},
        "chat": "chat.jsonl",
        "message": "Who are you?",
        "seed": 7,
        "options": {"now": "2026-01-01T00:00:00+00:00"},
    }
    from tavernkit import silly_tavern as st

    plan = st.build(
        character=tk.load(example_path("aria.json")),
        avatar="aria.json",
        preset=st.Preset.load(example_path("preset.json")),
        books=[st.WorldBook.load(example_path("tidewatch.json"))],
        history=st.ChatFile.load(example_path("chat.jsonl")),
        user=tk.User(name="Ann", persona="A sailor."),
        message="Who are you?",
        seed=7,
        clock=lambda: datetime(2026, 1, 1, tzinfo=UTC),
    )
    assert record["messages"] == plan.to_messages()
    assert record["fingerprint"] == plan.fingerprint()
    assert record["tokens"] == plan.explain().total_tokens
    assert record["error"] is None
    assert record["schema"] == 1


def test_both_platforms_and_text_completion(tmp_path: Path) -> None:
    copy_example(tmp_path, "aria.json", "tidewatch.json")
    grid = {
        "cards": "aria.json",
        "books": ["tidewatch.json"],
        "messages": "Hi",
        "platforms": ["silly_tavern", "risu_ai"],
    }
    made = list(tk.iter_batch(tk.Grid(grid, folder=tmp_path)))
    assert [record.inputs["platform"] for record in made] == ["silly_tavern", "risu_ai"]
    assert all(record.messages and record.tokens and record.error is None for record in made)
    (text,) = tk.iter_batch(
        tk.Grid({"cards": "aria.json", "messages": "Hi", "defaults": {"dialect": "text"}}, folder=tmp_path)
    )
    assert text.messages is None
    assert text.prompt
    assert "Aria" in text.prompt


def test_the_manifest_says_what_was_made_of_what(tmp_path: Path) -> None:
    tk.batch(write_grid(tmp_path), tmp_path / "out", jobs=1)
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["tavernkit"] == tk.__version__
    assert manifest["status"] == "complete"
    assert manifest["grid"]["seeds"] == {"start": 1, "count": 2}
    assert set(manifest["files"]) == {"cards/card0.json", "cards/card1.json"}
    assert manifest["counts"]["records"] == 12
    assert manifest["parts"] == ["part-00000.jsonl"]
    assert manifest["started"] <= manifest["ended"]


def test_processes_make_the_same_records(tmp_path: Path) -> None:
    grid = write_grid(tmp_path, seeds=5)
    tk.batch(grid, tmp_path / "one", jobs=1)
    assert {record.key: record.to_dict() for record in tk.iter_batch(grid, jobs=2)} == by_key(tmp_path / "one")


def test_a_card_that_cannot_be_read_is_a_record_that_says_so(tmp_path: Path) -> None:
    write_grid(tmp_path)
    (tmp_path / "cards" / "card0.json").write_text("not a card")
    (tmp_path / "cards" / "card2.json").symlink_to(tmp_path / "gone.json")
    result = tk.batch(
        tk.Grid({"cards": ["cards/card0.json", "cards/card1.json", "cards/card2.json"]}, folder=tmp_path),
        tmp_path / "out",
        jobs=1,
    )
    assert (result.records, result.failed) == (3, 2)
    errors = {record["inputs"]["card"]: record["error"] for record in records(tmp_path / "out")}
    assert "card0.json" in errors["cards/card0.json"]["message"]
    assert errors["cards/card1.json"] is None
    assert "No such file" in errors["cards/card2.json"]["message"]


def test_a_file_that_changes_during_the_run_is_an_error(tmp_path: Path) -> None:
    grid = tk.Grid.load(write_grid(tmp_path, cards=1))
    (task, *_) = grid.tasks()
    write_card(tmp_path / "cards" / "card0.json", "Another")
    ((built,),) = executors.in_process(Job(folder=grid.folder), iter([[task]]))
    assert built.record is not None
    assert built.record.error is not None
    assert "has changed" in str(built.record.error["message"])


def test_a_folder_with_records_needs_resume(tmp_path: Path) -> None:
    grid = write_grid(tmp_path)
    tk.batch(grid, tmp_path / "out", jobs=1)
    with pytest.raises(tk.ConfigError, match="--resume"):
        tk.batch(grid, tmp_path / "out", jobs=1)
    again = tk.batch(grid, tmp_path / "out", jobs=1, resume=True)
    assert (again.made, again.skipped) == (0, 12)
    with pytest.raises(tk.ConfigError, match="--format jsonl"):
        tk.batch(grid, tmp_path / "out", jobs=1, resume=True, format="chat")


def test_what_is_inserted_is_made_and_nothing_else(tmp_path: Path) -> None:
    grid = write_grid(tmp_path)
    tk.batch(grid, tmp_path / "out", jobs=1)
    (tmp_path / "messages.txt").write_text("A new first line\n" + (tmp_path / "messages.txt").read_text())
    write_card(tmp_path / "cards" / "a-new-first-card.json", "Zoe")
    result = tk.batch(grid, tmp_path / "out", jobs=1, resume=True)
    assert (result.records, result.made, result.skipped, result.stale) == (24, 12, 12, 0)
    tk.batch(grid, tmp_path / "whole", jobs=1)
    assert by_key(tmp_path / "out") == by_key(tmp_path / "whole")


def test_what_the_grid_has_no_longer_is_set_aside(tmp_path: Path) -> None:
    grid = write_grid(tmp_path)
    tk.batch(grid, tmp_path / "out", jobs=1, records_per_part=5)
    write_card(tmp_path / "cards" / "card0.json", "Renamed")
    result = tk.batch(grid, tmp_path / "out", jobs=1, resume=True)
    assert (result.records, result.made, result.stale) == (12, 6, 6)
    tk.batch(grid, tmp_path / "whole", jobs=1)
    assert by_key(tmp_path / "out") == by_key(tmp_path / "whole")
    assert len((tmp_path / "out" / "stale.jsonl").read_bytes().splitlines()) == 6


def test_a_limit_makes_the_first_and_the_next_run_the_rest(tmp_path: Path) -> None:
    grid = write_grid(tmp_path)
    first = tk.batch(grid, tmp_path / "out", jobs=1, limit=5)
    assert (first.status, first.records) == ("limited", 5)
    rest = tk.batch(grid, tmp_path / "out", jobs=1, resume=True)
    assert (rest.status, rest.made, rest.skipped) == ("complete", 7, 5)


def test_shards_write_into_one_folder_and_a_last_run_closes_it(tmp_path: Path) -> None:
    grid = write_grid(tmp_path, seeds=4)
    made = [tk.batch(grid, tmp_path / "out", jobs=1, shard=(number, 3)).made for number in (1, 2, 3)]
    assert sum(made) == 24
    assert (tmp_path / "out" / "manifest-2of3.json").exists()
    with pytest.raises(tk.ConfigError, match="without --shard"):
        tk.batch(grid, tmp_path / "out", jobs=1, shard=(1, 2), resume=True)
    last = tk.batch(grid, tmp_path / "out", jobs=1, resume=True)
    assert (last.made, last.skipped) == (0, 24)
    tk.batch(grid, tmp_path / "whole", jobs=1)
    assert by_key(tmp_path / "out") == by_key(tmp_path / "whole")


@pytest.mark.parametrize(
    "tail", [b'{"key":"', b'{"key":"0123456789abcdef0123456789abcdef","schema":1,"inp', b"\n", b"\0\0"]
)
def test_a_line_that_a_kill_cut_off_is_made_again(tmp_path: Path, tail: bytes) -> None:
    grid = write_grid(tmp_path)
    tk.batch(grid, tmp_path / "whole", jobs=1)
    lines = (tmp_path / "whole" / "part-00000.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "part-00000.jsonl").write_bytes(b"".join(lines[:4]) + tail)
    result = tk.batch(grid, tmp_path / "out", jobs=1, resume=True)
    assert (result.made, result.skipped) == (8, 4)
    assert by_key(tmp_path / "out") == by_key(tmp_path / "whole")


@pytest.mark.parametrize(("jobs", "form"), [(2, "jsonl"), (1, "parquet")])
def test_after_kill_9_at_any_moment_the_next_run_completes_it(tmp_path: Path, jobs: int, form: str) -> None:
    if form == "parquet":
        pytest.importorskip("pyarrow", reason="Parquet needs pyarrow: pip install 'tavernkit[parquet]'")
    grid = write_grid(tmp_path, cards=3, seeds=5)
    command = [sys.executable, "-c", RUN, str(grid), str(tmp_path / "out"), str(jobs), form]
    for done in (1, 12):
        run = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
        assert run.stdout is not None
        for line in run.stdout:
            if int(line) >= done:
                break
        os.kill(run.pid, signal.SIGKILL)
        assert run.wait() == -signal.SIGKILL
        run.stdout.close()
        (tmp_path / "messages.txt").write_text("Inserted\n" + (tmp_path / "messages.txt").read_text())
    last = tk.batch(grid, tmp_path / "out", jobs=1, resume=True, format="parquet" if form == "parquet" else "jsonl")
    tk.batch(grid, tmp_path / "whole", jobs=1)
    whole = by_key(tmp_path / "whole")
    assert last.records == len(whole)
    assert last.skipped > 0
    if form == "jsonl":
        assert by_key(tmp_path / "out") == whole
    else:
        keys = [row["key"] for row in parquet_rows(tmp_path / "out")]
        assert sorted(keys) == sorted(whole)
        assert not list((tmp_path / "out").glob("*.jsonl"))


def parquet_rows(folder: Path) -> list[dict[str, Any]]:
    import pyarrow.parquet  # pyright: ignore[reportMissingImports]

    return [row for path in sorted(folder.glob("*.parquet")) for row in pyarrow.parquet.read_table(path).to_pylist()]


def test_ctrl_c_keeps_what_is_finished(tmp_path: Path) -> None:
    grid = write_grid(tmp_path, cards=3, seeds=1000)
    out = tmp_path / "out"
    run = subprocess.Popen(
        [sys.executable, "-c", RUN, str(grid), str(out), "2", "jsonl"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=heed_interrupts,
    )
    assert run.stdout is not None
    told = int(run.stdout.readline())
    run.send_signal(signal.SIGINT)
    rest, error = run.communicate()
    assert b"KeyboardInterrupt" in error
    told = max([told, *map(int, rest.split())])
    assert json.loads((out / "manifest.json").read_text())["status"] == "interrupted"
    assert len(by_key(out)) == told < 9000


def test_a_worker_that_dies_costs_only_the_record_it_dies_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        executors,
        "_START",
        "import sys, os; sys.path[:] = sys.argv[1:]\n"
        "from tavernkit.batching import _executors as executors, _building\n"
        "from tavernkit import silly_tavern as st\n"
        "build = st.Builder.build\n"
        "def fatal(self, **inputs):\n"
        "    if inputs['seed'] == 3 and 'lamp?' in inputs['message']: os.kill(os.getpid(), 9)\n"
        "    return build(self, **inputs)\n"
        "st.Builder.build = fatal\n"
        "executors.serve()",
    )
    grid = tk.Grid.load(write_grid(tmp_path, cards=1, seeds=4))
    chunks = iter([list(grid.tasks(Selection()))])
    made = [built.record for result in processes(2)(Job(folder=grid.folder), chunks) for built in result]
    failed = [record for record in made if record is not None and record.error is not None]
    assert len(made) == 12
    assert [record.inputs["seed"] for record in failed] == [3]
    assert failed[0].error == {"type": "WorkerDiedError", "message": "a worker ended with -9"}


def test_chunks_are_taken_only_when_somebody_can_work_on_them(tmp_path: Path) -> None:
    grid = tk.Grid.load(write_grid(tmp_path, cards=1, seeds=20))
    taken: list[int] = []
    before = set(threading.enumerate())  # threads of other tests

    def chunks() -> Any:
        for number, task in enumerate(grid.tasks()):
            taken.append(number)
            yield [task]

    results = processes(2)(Job(folder=grid.folder), chunks())
    for finished, _ in enumerate(results, 1):
        assert len(taken) - finished <= 3
        if finished == 20:
            break
    results.close()
    assert not set(threading.enumerate()) - before


def test_progress_says_how_far_it_is(tmp_path: Path) -> None:
    told: list[BatchProgress] = []
    tk.batch(write_grid(tmp_path), tmp_path / "out", jobs=1, progress=told.append)
    assert [now.done for now in told] == sorted(now.done for now in told)
    assert told[-1].done == told[-1].total == 12
    assert told[-1].seconds_left == 0


def test_wrong_arguments_are_refused(tmp_path: Path) -> None:
    grid = write_grid(tmp_path)
    with pytest.raises(tk.ConfigError, match="jobs"):
        tk.batch(grid, tmp_path / "out", jobs=0)
    with pytest.raises(tk.ConfigError, match="shard 3/2"):
        tk.batch(grid, tmp_path / "out", shard=(3, 2))
    with pytest.raises(tk.ConfigError, match="format"):
        tk.batch(grid, tmp_path / "out", format="xml")  # type: ignore[arg-type]
    with pytest.raises(tk.ConfigError, match="grid must be"):
        tk.batch(5, tmp_path / "out")  # type: ignore[arg-type]


def test_without_ray_or_without_a_cluster_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class NoCluster:
        @staticmethod
        def is_initialized() -> bool:
            return False

        @staticmethod
        def init(**options: object) -> None:
            raise ConnectionError("could not find any running instance")

    monkeypatch.setattr("tavernkit.batching._ray_cluster.import_module", lambda name: NoCluster)
    for address, message in (("auto", "running instance"), ("127.0.0.1:1", "refused")):
        with pytest.raises(tk.ConfigError, match=message):
            tk.batch(write_grid(tmp_path), tmp_path / "out", ray=address)

    def missing(name: str) -> object:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr("tavernkit.batching._ray_cluster.import_module", missing)
    with pytest.raises(tk.ConfigError, match="--ray needs Ray"):
        tk.batch(write_grid(tmp_path), tmp_path / "out", ray="auto")


def test_records_do_not_depend_on_those_that_were_made_before(tmp_path: Path) -> None:
    """RisuAI remembers what scripts made of a text in a chat, dice included; a record is as if it were the first."""
    card = json.loads(example_path("aria.json").read_bytes())
    scripts = [
        {"comment": "", "in": "lamp", "out": "{{random::a::b::c::d::e::f::g}}", "type": "editprocess", "flag": "g"}
    ]
    card["data"].setdefault("extensions", {})["risuai"] = {"customScripts": scripts}
    (tmp_path / "aria.json").write_text(json.dumps(card), encoding="utf-8")
    chat = {"id": "chat-1", "name": "New", "note": "", "localLore": [], "fmIndex": -1, "message": []}
    chat["message"] = [{"role": "user", "data": "The lamp, the lamp."}, {"role": "char", "data": "Yes?"}]
    (tmp_path / "chat.json").write_text(json.dumps({"type": "risuChat", "ver": 2, "data": chat}), encoding="utf-8")

    def fingerprints(seeds: list[int]) -> dict[str, str | None]:
        grid = {
            "cards": "aria.json",
            "chats": "chat.json",
            "platforms": "risu_ai",
            "messages": "Go on.",
            "seeds": seeds,
        }
        made = list(tk.iter_batch(tk.Grid(grid, folder=tmp_path)))
        assert all(record.error is None for record in made)
        return {record.key: record.fingerprint for record in made}

    together = fingerprints([1, 2, 3, 4])
    assert len(set(together.values())) > 1
    assert fingerprints([4, 3]) | fingerprints([2]) | fingerprints([1]) == together
