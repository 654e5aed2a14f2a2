"""Every command line that the documentation shows can be typed, and every example script runs."""

from __future__ import annotations

import functools
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from tavernkit.cli.app import make_app, run
from tavernkit.examples import NAMES, example_path

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
LINE = re.compile(r"^\$ tavernkit (.+)$", re.MULTILINE)
EXAMPLE = re.compile(r"^\s+tavernkit (.+)$", re.MULTILINE)


def command_lines() -> Iterator[str]:
    for page in [README, *sorted((ROOT / "docs").rglob("*.md"))]:
        yield from LINE.findall(page.read_text(encoding="utf-8"))
    for module in sorted((ROOT / "src/tavernkit/cli/commands").glob("*.py")):
        for doc in re.findall(r'r"""(.*?)"""', module.read_text(encoding="utf-8"), re.DOTALL):
            yield from EXAMPLE.findall(doc)


@functools.cache
def app() -> Any:
    return typer.main.get_command(make_app())


@pytest.mark.parametrize("line", sorted(set(command_lines())))
def test_a_command_line_of_the_documentation_can_be_typed(line: str) -> None:
    command = app()
    words = [word for word in shlex.split(line, comments=True) if word != "…"]
    words = words[: words.index(">")] if ">" in words else words
    while words and hasattr(command, "commands"):
        command = command.commands[words.pop(0)]
    assert problem_with(command, words) in (None, "the files of the pages are not here")


def problem_with(command: Any, words: list[str]) -> str | None:
    try:
        command.make_context("tavernkit", words)
    except typer.BadParameter as error:
        return "the files of the pages are not here" if "does not exist" in error.message else error.message
    return None


def test_the_table_of_the_readme_is_what_the_command_prints(capsys: pytest.CaptureFixture[str]) -> None:
    shown = re.search(r"^\$ tavernkit (explain .*)\n([^`]*)^```", README.read_text(encoding="utf-8"), re.MULTILINE)
    assert shown is not None
    files = {name: str(example_path(name)) for name in NAMES}
    words = [files.get(word, word) for word in shlex.split(shown[1])]
    capsys.readouterr()
    assert run(words) == 0
    assert capsys.readouterr().out.split() == shown[2].split()


ARGUMENTS = {"write_a_report": ["report.html"]}


def run_example(name: str, *arguments: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / f"{name}.py"), *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=folder,
    )
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    return done.stdout


@pytest.mark.parametrize("name", sorted(path.stem for path in (ROOT / "examples").glob("*.py")))
def test_an_example_script_runs(name: str, tmp_path: Path) -> None:
    assert run_example(name, *ARGUMENTS.get(name, []), folder=tmp_path).strip()


def test_many_prompts_go_on_after_an_interrupt(tmp_path: Path) -> None:
    cards = tmp_path / "cards"
    cards.mkdir()
    (cards / "a.json").write_bytes(example_path("aria.json").read_bytes())
    (cards / "broken.json").write_text("{", encoding="utf-8")
    (tmp_path / "messages.txt").write_text("Who are you?\n", encoding="utf-8")
    command = ("many_prompts", "cards", "messages.txt", "prompts")
    assert "4 records, 0 of them from before, 2 with an error" in run_example(*command, folder=tmp_path)
    (tmp_path / "messages.txt").write_text("A new one\nWho are you?\n", encoding="utf-8")
    assert "8 records, 4 of them from before, 2 with an error" in run_example(*command, folder=tmp_path)
