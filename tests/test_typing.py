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


Lines = set[tuple[str, int]]


def lines_marked_wrong() -> Lines:
    return {
        (path.name, number)
        for path in CASES
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if line.endswith("# wrong")
    }


def run(*command: str) -> str:
    return subprocess.run(
        [sys.executable, "-m", *command], capture_output=True, text=True, cwd=ROOT, check=False
    ).stdout


def test_pyright_refuses_exactly_the_wrong_calls(tmp_path: Path) -> None:
    settings = {"include": [*map(str, CASES)], "extraPaths": [str(ROOT / "src")], "typeCheckingMode": "standard"}
    project = tmp_path / "pyrightconfig.json"
    project.write_text(json.dumps(settings), encoding="utf-8")
    report = json.loads(run("basedpyright", "--outputjson", "--pythonpath", sys.executable, "--project", str(project)))
    errors = [each for each in report["generalDiagnostics"] if each["severity"] == "error"]
    found = {(Path(each["file"]).name, each["range"]["start"]["line"] + 1) for each in errors}
    assert found == lines_marked_wrong()


@pytest.mark.slow
def test_mypy_refuses_exactly_the_wrong_calls(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    command = ["mypy", "--follow-imports=silent", f"--cache-dir={tmp_path}", "--no-error-summary", *map(str, CASES)]
    said = run(*command)
    found = {(Path(match[1]).name, int(match[2])) for match in re.finditer(r"(?m)^(\S+\.py):(\d+): error", said)}
    assert found == lines_marked_wrong(), said
