"""What the repository says about itself agrees with itself."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import yaml

import tavernkit

ROOT = Path(__file__).parent.parent


def test_there_is_one_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["project"]["dynamic"] == ["version"]
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))["version"] == tavernkit.__version__
    assert f"## {tavernkit.__version__} (" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_hosted_checks_run_what_the_makefile_has() -> None:
    targets = {
        line.split(":")[0] for line in (ROOT / "Makefile").read_text(encoding="utf-8").splitlines() if "## " in line
    }
    for file in (ROOT / ".github" / "workflows").glob("*.yml"):
        jobs = yaml.safe_load(file.read_text(encoding="utf-8"))["jobs"]
        commands = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
        assert commands or file.name == "release.yml"
        assert {command.removeprefix("make ") for command in commands if command.startswith("make ")} <= targets


def test_docstrings_are_markdown() -> None:
    """Pages would show Sphinx roles as they are."""
    role = re.compile(r":(class|func|meth|data|mod|attr|exc|const):`")
    assert not [str(path) for path in (ROOT / "src").rglob("*.py") if role.search(path.read_text(encoding="utf-8"))]
