"""The front doors are typed: what type checkers say of right and wrong calls."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
CASES = sorted((Path(__file__).parent / "typing_cases").glob("[a-z]*.py"))


def lines_marked_wrong(path: Path) -> set[int]:
    lines = path.read_text(encoding="utf-8").splitlines()
    return {number for number, line in enumerate(lines, 1) if line.endswith("# wrong")}


def run(*command: str) -> str:
    return subprocess.run(
        [sys.executable, "-m", *command], capture_output=True, text=True, cwd=ROOT, check=False
    ).stdout


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_pyright_refuses_exactly_the_wrong_calls(path: Path, tmp_path: Path) -> None:
    settings = {"include": [str(path)], "extraPaths": [str(ROOT / "src")], "typeCheckingMode": "standard"}
    project = tmp_path / "pyrightconfig.json"
    project.write_text(json.dumps(settings), encoding="utf-8")
    report = json.loads(run("basedpyright", "--outputjson", "--pythonpath", sys.executable, "--project", str(project)))
    errors = [each for each in report["generalDiagnostics"] if each["severity"] == "error"]
    assert {each["range"]["start"]["line"] + 1 for each in errors} == lines_marked_wrong(path)


@pytest.mark.slow
@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_mypy_refuses_exactly_the_wrong_calls(path: Path, tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    said = run("mypy", "--follow-imports=silent", f"--cache-dir={tmp_path}", "--no-error-summary", str(path))
    found = {int(match[1]) for match in re.finditer(rf"{path.name}:(\d+): error", said)}
    assert found == lines_marked_wrong(path), said
