"""Files and folders that pages and decisions name are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = (DOCS / "architecture.md", DOCS / "security.md", DOCS / "performance.md", *(DOCS / "decisions").glob("*.md"))
NAMED = re.compile(r"`((?:[\w.-]+/)+(?:[\w-]+\.py)?|[\w/]+\.py)(?:::\w+)?`")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_files_that_a_page_names_are_there(page: Path) -> None:
    named = set(NAMED.findall(page.read_text(encoding="utf-8")))
    there = [f"/{file.relative_to(ROOT).as_posix()}" for file in _files()]
    missing = sorted(name for name in named if not any(_matches(name, path) for path in there))
    assert not missing


def _files() -> list[Path]:
    folders = ("src", "tests", "fuzz", "benchmarks", "docs", "deploy")
    return [file for folder in folders for file in (ROOT / folder).rglob("*.*") if "__pycache__" not in file.parts]


def _matches(name: str, path: str) -> bool:
    return f"/{name}" in path if name.endswith("/") else path.endswith(f"/{name}")
