"""Every command line that the documentation shows can be typed, and every example script runs."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from tavernkit.cli.app import make_app

ROOT = Path(__file__).parents[2]
LINE = re.compile(r"^\$ tavernkit (.+)$", re.MULTILINE)
EXAMPLE = re.compile(r"^\s+tavernkit (.+)$", re.MULTILINE)


def command_lines() -> Iterator[str]:
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        yield from LINE.findall(page.read_text(encoding="utf-8"))
    for module in sorted((ROOT / "src/tavernkit/cli/commands").glob("*.py")):
        for doc in re.findall(r'r"""(.*?)"""', module.read_text(encoding="utf-8"), re.DOTALL):
            yield from EXAMPLE.findall(doc)


@pytest.mark.parametrize("line", sorted(set(command_lines())))
def test_a_command_line_of_the_documentation_can_be_typed(line: str) -> None:
    command: Any = typer.main.get_command(make_app())
    words = shlex.split(line, comments=True)
    while words and hasattr(command, "commands"):
        command = command.commands[words.pop(0)]
    known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    known |= {"--help", "--debug"}
    used = {word.partition("=")[0] for word in words if re.fullmatch(r"--?[a-z][a-z-]*(=.*)?", word)}
    assert used <= known


@pytest.mark.parametrize("script", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.stem)
def test_an_example_script_runs(script: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path / "report.html")],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    assert not done.stderr
