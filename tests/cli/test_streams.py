"""What reaches whoever reads: people, programs, and nobody any more."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tavernkit import cli
from tavernkit.cli import app
from tests.cli.terminal import CARD, PATIENCE, Tavernkit, in_process

COMMAND = [sys.executable, "-m", "tavernkit"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("bild",),
        ("build", "--nonsense"),
        ("build",),
        ("build", CARD, "--platform", "nonsense"),
        ("build", CARD, "--seed", "nonsense"),
        ("lore", "convert", CARD, "x.json"),
        ("macros", "eval"),
        ("lint", "nowhere.json"),
    ],
    ids=" ".join,
)
def test_wrong_usage_is_one_readable_line_that_names_the_help(tavernkit: Tavernkit, arguments: tuple[str, ...]) -> None:
    outcome = tavernkit(*arguments)
    assert outcome.code == 2
    assert outcome.err.startswith("error: ")
    assert outcome.err.count("\n") == 1
    assert " --help)" in outcome.err
    assert outcome.out == ""


def test_a_group_without_a_command_shows_its_help_and_is_wrong_usage(tavernkit: Tavernkit) -> None:
    outcome = tavernkit("card")
    assert (outcome.code, outcome.err) == (2, "")
    assert "convert" in outcome.out


@pytest.mark.parametrize("arguments", [("build", "nowhere.png"), ("build", CARD, "--nonsense")], ids=" ".join)
def test_with_json_errors_are_json_too(tavernkit: Tavernkit, arguments: tuple[str, ...]) -> None:
    outcome = tavernkit(*arguments, "--json")
    told = json.loads(outcome.err)
    assert (outcome.code, outcome.out, told["kind"]) == (2, "", "error")
    assert arguments[-1] in told["message"]


def test_with_json_warnings_are_json_too(tavernkit: Tavernkit, tmp_path: Path) -> None:
    card = tmp_path / "marked.json"
    card.write_bytes(b"\xef\xbb\xbf" + Path(CARD).read_bytes())
    outcome = tavernkit("card", "show", str(card), "--json")
    assert json.loads(outcome.out)["data"]["name"] == "Aria"
    assert json.loads(outcome.err)["kind"] == "warning"
    assert tavernkit("card", "show", str(card)).err.startswith("warning: ")


@pytest.mark.parametrize("arguments", [("macros", "list"), ("macros", "eval", "hi")], ids=" ".join)
def test_a_reader_that_goes_away_ends_the_command_quietly(arguments: tuple[str, ...]) -> None:
    process = subprocess.Popen([*COMMAND, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    complaints = process.stderr.read()
    process.stderr.close()
    assert (process.wait(PATIENCE), complaints) == (141, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full")
@pytest.mark.parametrize("buffered", [False, True])
@pytest.mark.parametrize("arguments", [("macros", "eval", "hi"), ("--version",)], ids=" ".join)
def test_an_output_on_a_full_disk_is_one_line(arguments: tuple[str, ...], buffered: bool) -> None:
    environment = {**os.environ, "PYTHONUNBUFFERED": "" if buffered else "1"}
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*COMMAND, *arguments], stdout=full, stderr=subprocess.PIPE, timeout=PATIENCE, env=environment
        )
    assert done.returncode == 2
    assert done.stderr == b"error: No space left on device\n"


@pytest.mark.skipif(os.name == "nt", reason="needs a shell that can close a stream")
@pytest.mark.parametrize("arguments", ["macros eval hi", "--version"])
def test_a_command_runs_without_an_output(arguments: str) -> None:
    script = f'"{sys.executable}" -m tavernkit {arguments} >&-'
    done = subprocess.run(script, shell=True, capture_output=True, timeout=PATIENCE)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.skipif(os.name == "nt", reason="needs a shell that can close a stream")
def test_an_error_that_nobody_reads_has_its_exit_code() -> None:
    script = f'"{sys.executable}" -m tavernkit build nowhere.png 2>&-'
    assert subprocess.run(script, shell=True, stdout=subprocess.PIPE, timeout=PATIENCE).returncode == 2


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "utf-8"])
def test_json_is_right_in_every_encoding(encoding: str) -> None:
    done = subprocess.run(
        [*COMMAND, "macros", "eval", "ñ 🕯", "--json"],
        capture_output=True,
        timeout=PATIENCE,
        env={**os.environ, "PYTHONIOENCODING": encoding},
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["text"] == "ñ 🕯"


def test_what_an_encoding_does_not_have_is_escaped() -> None:
    done = subprocess.run(
        [*COMMAND, "build", CARD, "--message", "🕯"],
        capture_output=True,
        timeout=PATIENCE,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )
    assert done.returncode == 0, done.stderr
    assert b"\\U0001f56f" in done.stdout


def test_a_file_name_of_any_bytes_can_be_told(tmp_path: Path) -> None:
    name = os.fsdecode(os.fsencode(str(tmp_path)) + b"/\xff\xfe \xf0\x9f\x95\xaf.json")
    Path(name).write_bytes(Path(CARD).read_bytes())
    outcome = in_process("lint", name)
    assert outcome.code == 0, outcome.err
    assert "🕯.json" in outcome.out


def test_ctrl_c_is_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(arguments: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(app, "run", interrupted)
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert end.value.code == 130
