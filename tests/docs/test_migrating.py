"""The page for users of 0.1 names things that there are."""

from __future__ import annotations

import importlib
import re
from importlib.util import find_spec
from pathlib import Path

import tavernkit

PAGE = (Path(__file__).parents[2] / "docs" / "migrating.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| (`.+?) \| (.+) \|$", re.MULTILINE)
NAME = re.compile(r"`(?:tavernkit\.)?([a-z_]+)\.(\w+)")


def test_what_the_page_suggests_is_there() -> None:
    suggested = {pair for _, new in ROW.findall(PAGE) for pair in NAME.findall(new) if pair[0] in dir(tavernkit)}
    assert len(suggested) > 7
    assert not [pair for pair in sorted(suggested) if not _is_there(*pair)]


def test_what_the_page_replaces_is_gone() -> None:
    replaced = {pair for old, _ in ROW.findall(PAGE) for pair in NAME.findall(old) if pair[0] in dir(tavernkit)}
    assert len(replaced) > 5
    assert not [pair for pair in sorted(replaced) if _is_there(*pair)]


def _is_there(package: str, name: str) -> bool:
    module = importlib.import_module(f"tavernkit.{package}")
    return name in module.__all__ or find_spec(f"{module.__name__}.{name}") is not None
