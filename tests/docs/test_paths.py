"""Files, folders and names that pages and decisions mention are there."""

from __future__ import annotations

import functools
import re
from pathlib import Path

import pytest

from tests.mutation.__main__ import SUBJECTS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
FOLDERS = ("src", "tests", "fuzz", "benchmarks", "docs", "deploy", "examples", "tools", "requirements")
PAGES = (
    ROOT / "CONTRIBUTING.md",
    *(DOCS / name for name in ("architecture.md", "security.md", "performance.md", "server.md", "deployment.md")),
    *(DOCS / "decisions").glob("*.md"),
)
NAMED = re.compile(r"`((?:[\w.-]+/)+(?:[\w-]+\.py)?|[\w/]+\.py)(?:::\w+)?`")
FOLDER_OR_FILE = re.compile(r"`(\w+(?:/[\w.]+)+)`")
IDENTIFIER = re.compile(r"`([A-Za-z_][\w.]*)`")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_files_that_a_page_names_are_there(page: Path) -> None:
    named = set(NAMED.findall(page.read_text(encoding="utf-8")))
    there = [f"/{file.relative_to(ROOT).as_posix()}" for file in _files()]
    missing = sorted(name for name in named if not any(_matches(name, path) for path in there))
    assert not missing


def test_folders_of_the_architecture_are_there() -> None:
    text = (DOCS / "architecture.md").read_text(encoding="utf-8")
    there = [f"{file.relative_to(ROOT).as_posix()}/" for file in _files()]
    missing = sorted(
        name for name in set(FOLDER_OR_FILE.findall(text)) if not any(f"/{name}/" in path for path in there)
    )
    assert not missing


def test_every_package_has_a_place_in_the_architecture() -> None:
    names = set(IDENTIFIER.findall((DOCS / "architecture.md").read_text(encoding="utf-8")))
    packages = {path.stem for path in (ROOT / "src" / "tavernkit").glob("[a-z_]*") if path.suffix in ("", ".py")}
    assert packages - {"__pycache__", "__init__", "__main__"} <= names


def test_what_mutation_runs_change_and_run_is_there() -> None:
    for subject in SUBJECTS.values():
        assert all((ROOT / "src" / "tavernkit" / f"{module}.py").is_file() for module in subject.modules)
        assert all((ROOT / test.partition("::")[0]).exists() for test in subject.tests)


def test_names_of_the_architecture_are_those_of_the_code() -> None:
    text = (DOCS / "architecture.md").read_text(encoding="utf-8")
    known = set(re.findall(r"\w+", "".join(file.read_text(encoding="utf-8") for file in _files() if _is_ours(file))))
    known |= {part for file in _files() for part in file.relative_to(ROOT).parts}
    names = {name for name in IDENTIFIER.findall(text) if not name.endswith((".py", ".md"))}
    assert len(names) > 80
    assert not sorted(name for name in names if not known.issuperset(name.split(".")))


@functools.cache
def _files() -> list[Path]:
    found = [file for folder in FOLDERS for file in (ROOT / folder).rglob("*.*")]
    return [file for file in found if "__pycache__" not in file.parts]


def _is_ours(file: Path) -> bool:
    return file.suffix == ".py" and file.is_relative_to(ROOT / "src")


def _matches(name: str, path: str) -> bool:
    return f"/{name}" in path if name.endswith("/") else path.endswith(f"/{name}")
