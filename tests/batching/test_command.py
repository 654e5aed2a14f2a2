"""``tavernkit batch``, as it is typed."""

from __future__ import annotations

import json
from functools import partial
from io import StringIO
from pathlib import Path

import pytest

import tavernkit as tk
from tavernkit.batching import BatchProgress
from tavernkit.cli import terminal
from tests.batching.grids import by_key, write_grid
from tests.cli.terminal import Tavernkit, Terminal


@pytest.fixture
def tavernkit(capsys: pytest.CaptureFixture[str]) -> Tavernkit:
    return Tavernkit(capsys)


def test_init_writes_a_grid_that_can_be_read(tavernkit: Tavernkit, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    assert tavernkit("batch", "--init", str(path)).code == 0
    text = path.read_text(encoding="utf-8")
    write_grid(tmp_path)
    path.write_text(text.replace('"cards/*.png", ', ""), encoding="utf-8")
    assert len(tk.Grid.load(path)) == 12
    assert tavernkit("batch", "--init", str(path)).code == 2
    path.unlink()
    assert json.loads(tavernkit("batch", "--init", str(path), "--json").out)["file"] == str(path)


def test_a_line_of_the_template_can_be_used_as_it_is(tmp_path: Path, tavernkit: Tavernkit) -> None:
    import tomllib

    tavernkit("batch", "--init", str(tmp_path / "grid.toml"))
    lines = (tmp_path / "grid.toml").read_text(encoding="utf-8").splitlines()
    used: dict[str, list[str]] = {}
    for line in lines:
        bare = line.removeprefix("# ").split("  #")[0].strip()
        if " = " in bare and not line.startswith("# A grid"):
            tomllib.loads(bare)
            used.setdefault(bare.split(" = ")[0], []).append(bare)
    from tavernkit.batching._grid import AXES

    assert set(AXES) <= set(used)


def test_a_dry_run_shows_what_would_be_made(tavernkit: Tavernkit, tmp_path: Path) -> None:
    grid = str(write_grid(tmp_path))
    shown = tavernkit("batch", grid, "--dry-run")
    assert shown.code == 0
    assert "12 records" in shown.out
    assert "Who are you?" in shown.out
    told = json.loads(tavernkit("batch", grid, "--dry-run", "--json").out)
    assert told["records"] == 12
    assert told["sizes"]["cards"] == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cards", "grid.toml", "messages.txt"]


def test_a_run_prints_one_line_of_json_on_a_pipe(tavernkit: Tavernkit, tmp_path: Path) -> None:
    grid, out = str(write_grid(tmp_path)), str(tmp_path / "out")
    made = tavernkit("batch", grid, "--out", out, "--jobs", "1", "--limit", "5")
    assert made.code == 0
    (line,) = made.out.splitlines()
    assert json.loads(line)["made"] == 5
    again = tavernkit("batch", grid, "--out", out, "--jobs", "1", "--resume")
    assert json.loads(again.out)["made"] == 7
    assert len(by_key(tmp_path / "out")) == 12


def test_records_with_errors_are_an_exit_code(tavernkit: Tavernkit, tmp_path: Path) -> None:
    grid = write_grid(tmp_path, cards=1, seeds=1)
    (tmp_path / "cards" / "card0.json").write_text("[]")
    made = tavernkit("batch", str(grid), "--out", str(tmp_path / "out"), "--jobs", "1")
    assert made.code == 1
    assert json.loads(made.out)["failed"] == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "--init"),
        (("GRID",), "--out DIR"),
        (("GRID", "--out", "OUT", "--shard", "0/4"), "I/N"),
        (("GRID", "--out", "OUT", "--shard", "5"), "I/N"),
        (("GRID", "--out", "OUT", "--format", "xml"), "not one of"),
        (("GRID", "--out", "OUT", "--format", "openai-batch"), "--model NAME"),
    ],
)
def test_wrong_calls_say_what_to_do(
    tavernkit: Tavernkit, tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    places = {"GRID": str(write_grid(tmp_path)), "OUT": str(tmp_path / "out")}
    called = tavernkit("batch", *(places.get(word, word) for word in arguments))
    assert called.code == 2
    assert message in called.err


def test_a_wrong_key_is_refused_with_a_suggestion(tavernkit: Tavernkit, tmp_path: Path) -> None:
    grid = write_grid(tmp_path, text='mesages = ["x"]\n')
    called = tavernkit("batch", str(grid), "--dry-run")
    assert called.code == 2
    assert "did you mean 'messages'" in called.err


def test_a_terminal_sees_rate_and_time_left(tmp_path: Path) -> None:
    grid = write_grid(tmp_path, cards=1, seeds=40)
    terminal = Terminal("batch", str(grid), "--out", str(tmp_path / "out"), "--jobs", "1")
    assert "/s · 00:" in terminal.wait_for("left")
    outcome = terminal.finish()
    assert outcome.code == 0
    assert "120 records in" in outcome.out


def test_ctrl_c_says_how_to_go_on(tavernkit: Tavernkit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*arguments: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("tavernkit.batching.batch", interrupted)
    called = tavernkit("batch", str(write_grid(tmp_path)), "--out", str(tmp_path / "out"))
    assert called.code == 130
    assert "continue with --resume" in called.err


def test_a_run_says_on_a_pipe_how_far_it_is(
    tavernkit: Tavernkit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terminal, "ProgressLines", partial(terminal.ProgressLines, every=0.0))
    made = tavernkit("batch", str(write_grid(tmp_path)), "--out", str(tmp_path / "out"), "--jobs", "1")
    lines = [json.loads(line) for line in made.err.splitlines()]
    assert [line["done"] for line in lines][-1] == 12
    assert lines[0].keys() == {"done", "total", "failed", "per_second", "seconds_left"}
    assert json.loads(made.out)["records"] == 12


def test_lines_of_progress_come_now_and_then() -> None:
    stream, now = StringIO(), 100.0
    lines = terminal.ProgressLines(stream, every=10.0, clock=lambda: now)
    for seconds in range(0, 31, 3):
        now = 100.0 + seconds
        lines(BatchProgress(seconds, 60, 1, 2.0))
    told = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [line["done"] for line in told] == [12, 24]
    assert told[0] == {"done": 12, "total": 60, "failed": 1, "per_second": 2.0, "seconds_left": 24}


@pytest.mark.parametrize(("form", "where"), [("jsonl", "the field 'error' of the records"), ("chat", "errors-*.jsonl")])
def test_a_terminal_says_where_errors_are(form: str, where: str, tmp_path: Path) -> None:
    (tmp_path / "broken.json").write_text("no card")
    (tmp_path / "grid.toml").write_text('cards = "broken.json"\nmessages = ["a"]\n')
    run = ("batch", str(tmp_path / "grid.toml"), "--out", str(tmp_path / "out"), "--jobs", "1", "--format", form)
    outcome = Terminal(*run).finish()
    assert outcome.code == 1
    assert f"1 record with an error: see {where}" in " ".join(outcome.out.split())
